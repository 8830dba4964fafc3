"""About: what is said about a setting beside its type and its default."""

import msgspec


class About(msgspec.Struct, frozen=True):
    """What is said about a setting beside its type and default; its key and its first variable come from its place."""

    doc: str
    """One sentence or two; `{group}` stands for the name of the group that the setting is in."""
    option: str = ""
    """The option of the command line; where it is empty there is none."""
    metavar: str = ""
    variables: tuple[str, ...] = ()
    """Further variables, in the order in which they count after `TIMELOOM_<KEY>`."""
    keys: tuple[str, ...] = ()
    """Further keys in the file."""
    properties: tuple[str, ...] = ()
    """Properties of a bundle that set it, the one that counts first in front."""
    secret: bool = False
    """Never shown, and refused in a file."""
    directs_key: bool = False
    """Decides where a secret is sent: refused in a file that nobody has named."""
    lifts_guard: bool = False
    """Can take a protection away: refused in a file that nobody has named."""

    def of(self, group: str) -> "About":
        """The same, said of a setting in that group."""
        return msgspec.structs.replace(self, doc=self.doc.replace("{group}", group))
