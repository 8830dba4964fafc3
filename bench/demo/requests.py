"""The form of a set of requests: a YAML list of conversations with the checks of their outcome."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import yaml

SETS: Final = Path(__file__).with_name("sets")
"""The published sets: those of development, which the rules were made with, and sets that were written without them."""

DEVELOPMENT: Final = "development"
"""How the names of sets begin that the rules were made with; every other set was only measured."""

Texts = str | tuple[str, ...]


class OutcomeChecks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Checks of an outcome; all of them must hold. Answers are compared without regard to case."""

    must_call: tuple[str, ...] = ()
    """Tools that the turn calls; a marked step of the plan counts as `react.plan`, because no call marks one."""
    must_not_call: tuple[str, ...] = ()
    file_equals: Mapping[str, str] = {}
    """The newest content of a file, apart from line feeds at its end."""
    file_contains: Mapping[str, Texts] = {}
    file_unchanged: Mapping[str, str] | tuple[str, ...] = {}
    """Files whose newest content is that of the start; a file that was not there is still not there."""
    answer_contains_any: tuple[str, ...] = ()
    answer_excludes: tuple[str, ...] = ()


class DemoRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request with the conversation before it; `sensible` says in words what a sensible outcome is."""

    id: str | int
    request: str
    sensible: str
    conversation: tuple[str, ...] = ()
    """Earlier messages of the user, which the same model answered."""
    files: Mapping[str, str] = {}
    """Files that the assistant wrote earlier in the conversation."""
    attachments: Mapping[str, str] = {}
    """Text files that are attached to the request."""
    checks: OutcomeChecks = OutcomeChecks()


def read_requests(path: Path) -> tuple[DemoRequest, ...]:
    """Return the requests of a set; raise `ValueError` if two of them have the same id."""
    found = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), type=tuple[DemoRequest, ...])
    ids = [str(request.id) for request in found]
    if doubled := sorted({name for name in ids if ids.count(name) > 1}):
        raise ValueError(f"{path.name}: each request needs its own id, got twice: {', '.join(doubled)}")
    return found
