"""Cases of the conformance suite: a message, its scene and the expected decision."""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

Group = Literal["requests", "recovery", "odd"]

GROUPS: tuple[Group, ...] = ("requests", "recovery", "odd")
"""The groups in order. Cases in `odd` are judged only by their form."""


class ExpectedText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expected content of a text or a list. Empty fields are not checked; words are compared without case."""

    has: str = ""
    any: tuple[str, ...] = ()
    ends: str = ""
    lacks: str = ""
    least: int = 0
    items: int = 0


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that the current turn has already written."""

    name: str
    text: str


class FailedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failed tool call of the current turn."""

    tool: str
    params: str
    message: str


class CaseScene(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state before the reply: files of an earlier turn, attachments, and earlier actions of this turn."""

    files: dict[str, str] = {}
    attachments: dict[str, str] = {}
    read: str = ""
    write: WrittenFile | None = None
    failed: FailedCall | None = None


class CaseNotice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A notice of the runtime about the previous reply."""

    code: str
    text: str


class ConformanceCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message in a scene, and the expected decision; `tool` may be `answer`."""

    id: str
    say: str
    scene: str = "empty"
    tool: str | tuple[str, ...] = ()
    params: dict[str, ExpectedText] = {}
    answer: ExpectedText = ExpectedText()
    notice: CaseNotice | None = None

    @property
    def tools(self) -> tuple[str, ...]:
        """The accepted tools; empty if any decision is accepted."""
        return (self.tool,) if isinstance(self.tool, str) else self.tool


class ConformanceSuite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All scenes and cases."""

    scenes: dict[str, CaseScene]
    requests: tuple[ConformanceCase, ...]
    recovery: tuple[ConformanceCase, ...]
    odd: tuple[ConformanceCase, ...]

    def cases(self, group: Group) -> tuple[ConformanceCase, ...]:
        """Return the cases of a group."""
        return {"requests": self.requests, "recovery": self.recovery, "odd": self.odd}[group]


@cache
def load_published_suite() -> ConformanceSuite:
    """Return the suite that ships with the package."""
    return read_suite(Path(__file__).with_name("requests.yaml"))


def read_suite(path: Path) -> ConformanceSuite:
    """Return the suite in a YAML file."""
    return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), type=ConformanceSuite)
