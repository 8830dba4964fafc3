"""Cases of the conformance suite: what is said, in which scene, and what a sensible decision holds."""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

Group = Literal["requests", "recovery", "odd"]

GROUPS: tuple[Group, ...] = ("requests", "recovery", "odd")
"""The groups in their order; of `odd` only the form is judged."""


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a text or a list must hold; what is not said is not asked for. Words are compared without regard to case."""

    has: str = ""
    any: tuple[str, ...] = ()
    ends: str = ""
    lacks: str = ""
    least: int = 0
    items: int = 0


class FileWritten(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that the current turn has written already."""

    name: str
    text: str


class FailedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of the current turn that has failed."""

    tool: str
    params: str
    message: str


class Scene(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was there before the reply: files of an earlier turn, attachments, and what this turn has done so far."""

    files: dict[str, str] = {}
    attachments: dict[str, str] = {}
    read: str = ""
    write: FileWritten | None = None
    failed: FailedCall | None = None


class Noticed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the runtime said of the reply before."""

    code: str
    text: str


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message in a scene, and the decision that is expected; `tool` may be `answer`."""

    id: str
    say: str
    scene: str = "empty"
    tool: str | tuple[str, ...] = ()
    params: dict[str, Expected] = {}
    answer: Expected = Expected()
    notice: Noticed | None = None

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that will do; none where any decision does."""
        return (self.tool,) if isinstance(self.tool, str) else self.tool


class Suite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole set."""

    scenes: dict[str, Scene]
    requests: tuple[Case, ...]
    recovery: tuple[Case, ...]
    odd: tuple[Case, ...]

    def cases(self, group: Group) -> tuple[Case, ...]:
        """The cases of a group."""
        return {"requests": self.requests, "recovery": self.recovery, "odd": self.odd}[group]


@cache
def published() -> Suite:
    """The set that ships."""
    return read_suite(Path(__file__).with_name("requests.yaml"))


def read_suite(path: Path) -> Suite:
    """The set that a YAML file holds."""
    return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), type=Suite)
