"""Names the parts that descriptors ask for and this version does not have yet: skills, knowledge and MCP servers."""

import logging
import threading
from typing import Literal

import msgspec

from timeloom.bundles.descriptors.skills import SkillsDescriptor
from timeloom.bundles.descriptors.tools import ToolsDescriptor

_logger = logging.getLogger(__name__)

PartKind = Literal["skills", "knowledge", "mcp_servers"]


class MissingPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a bundle that this version does not have yet; the bundle runs without it."""

    bundle: str
    part: PartKind
    names: tuple[str, ...]
    place: str = ""
    """The file and the line that name it."""

    @property
    def text(self) -> str:
        """The part in one sentence."""
        where = f" ({self.place})" if self.place else ""
        what = self.part.replace("mcp_servers", "MCP servers")
        return (
            f"the bundle {self.bundle} names {what}{where}: {', '.join(self.names)}; "
            f"this version of timeloom has no {what} yet, so the bundle runs without them"
        )


class MissingParts:
    """The missing parts of all bundles of a process, each logged once."""

    def __init__(self) -> None:
        self._parts: dict[MissingPart, None] = {}
        self._lock = threading.Lock()

    @property
    def parts(self) -> tuple[MissingPart, ...]:
        """The missing parts in the order in which they were found."""
        return tuple(self._parts)

    def report(self, *parts: MissingPart) -> None:
        """Remember the parts and log those that are new."""
        for part in parts:
            with self._lock:
                is_new = part not in self._parts
                self._parts[part] = None
            if is_new:
                _logger.warning("%s", part.text)


def find_missing_parts(
    bundle: str, tools: ToolsDescriptor | None = None, skills: SkillsDescriptor | None = None
) -> tuple[MissingPart, ...]:
    """Return the missing parts that the descriptors of the bundle name."""
    found: list[MissingPart] = []
    if tools and tools.mcp_servers:
        servers = tuple(one.server_id for one in tools.mcp_servers)
        found.append(MissingPart(bundle=bundle, part="mcp_servers", names=servers, place=tools.place))
    if skills and skills.roots:
        found.append(MissingPart(bundle=bundle, part="skills", names=skills.roots, place=skills.place))
    return tuple(found)
