"""A bundle: the tools, instructions, rules and surfaces of an agent app, as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from timeloom.core.policy.gates import Policy
from timeloom.ports.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleChannel:
    """A channel that the model may write in conversations of the bundle, beside the built-in ones."""

    mime: str
    """The type of its content, such as `application/json`."""
    purpose: str = ""
    """When and what the model writes on it; a line of the system text."""
    widget: str = ""
    """The name of the widget that shows it; empty shows the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleWidget:
    """An HTML document that shows channels in a sandboxed frame; it receives its data by messages only."""

    html: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """An agent app. `bundle.toml` in a folder and a `Bundle` object in a package describe the same thing."""

    name: str
    """The name that conversations record: letters, digits, `_` and `-`."""
    title: str = ""
    """The name that people see; empty shows `name`."""
    description: str = ""
    tools: tuple[Tool, ...] = ()
    allowed_tools: tuple[str, ...] = ("*",)
    """The tools of a conversation, as ids, `family.*` or `*`: further ones of the program are left out."""
    instructions: str = ""
    """Text at the end of the system text."""
    policies: tuple[Policy, ...] = ()
    """Further policies. They can be stricter than the server's, never more permissive."""
    max_iterations: int | None = None
    """Rounds of a turn; None uses the server's default. The server's ceiling stays in force."""
    output: type | None = None
    """The type of the answers; None means plain text."""
    settings: msgspec.Struct | None = None
    """The typed settings of the bundle with their values."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    """References to secrets by name: `env:NAME`, `file:PATH` or `command:COMMAND`."""
    channels: Mapping[str, BundleChannel] = field(default_factory=dict[str, BundleChannel])
    widgets: Mapping[str, BundleWidget] = field(default_factory=dict[str, BundleWidget])
    workflow: type | None = None
    """A subclass of `BaseWorkflow` that runs the turns; None runs them directly."""
    skills: tuple[str, ...] = ()
    """Folders with skills."""
    knowledge: tuple[str, ...] = ()
    """Folders with knowledge."""
    mcp_servers: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """Servers of the Model Context Protocol by name, with their options."""
    react: bool | tuple[str, ...] = True
    """The built-in `react.*` tools: all, none, or some by id."""
