"""The help and the aliases of a setting, attached to its type."""

import msgspec


class SettingHelp(msgspec.Struct, frozen=True):
    """The help and aliases of a setting; its key and first variable follow from its position."""

    doc: str
    """One or two sentences; `{group}` is replaced by the name of the setting's group."""
    option: str = ""
    """The command line option; empty if there is none."""
    metavar: str = ""
    variables: tuple[str, ...] = ()
    """Further environment variables, in order of precedence after `TIMELOOM_<KEY>`."""
    keys: tuple[str, ...] = ()
    """Further keys in the TOML file."""
    properties: tuple[str, ...] = ()
    """Properties of a bundle that set it, in order of precedence."""
    secret: bool = False
    """Its value is never printed and rejected in a file; a reference such as `env:NAME` may be both."""

    def for_group(self, group: str) -> "SettingHelp":
        """Return a copy with the name of the group filled in."""
        return msgspec.structs.replace(self, doc=self.doc.replace("{group}", group))
