"""Faults of a bundle's code: what failed, with the file and the line, in a text without paths of the host."""

import asyncio
import inspect
import traceback
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

import timeloom
from timeloom.platform.secrets import SECRETS
from timeloom.tools.errors import strip_host_paths

FaultCode = Literal["workflow_failed", "hook_failed"]

MAX_REASON_CHARS: Final = 600
"""Longest reason in a fault's text. Less cuts messages of validators short; more fills the end of a turn."""

_FOREIGN: Final = (str(Path(timeloom.__file__).parent), str(Path(asyncio.__file__).parent.parent), "<")
_Place = tuple[str, int]
_NOWHERE: Final = Path("/nonexistent")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFault:
    """A fault in the code of a bundle."""

    bundle: str
    code: FaultCode
    where: str
    """The function that failed, such as `pre_run_hook`."""
    file: str
    """The name of the file, without its folder."""
    line: int
    reason: str

    @property
    def text(self) -> str:
        """The fault in one sentence, as turns and `/health` show it."""
        return f"{self.where} of the bundle {self.bundle} failed at {self.file}, line {self.line}: {self.reason}"


class CodeFaultError(Exception):
    """A fault that ends the turn."""

    def __init__(self, fault: CodeFault) -> None:
        super().__init__(fault.text)
        self.fault = fault


def fault_of_error(bundle: str, code: FaultCode, where: str, error: BaseException, owner: object) -> CodeFault:
    """Return the fault of an exception: its place is the last line of the bundle's own code."""
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    file, line = _last_place(places, _folder_of(owner)) or place_of(owner)
    message = "".join(traceback.format_exception_only(error))
    return CodeFault(bundle=bundle, code=code, where=where, file=file, line=line, reason=_clean(message))


def fault_of_hang(
    bundle: str,
    code: FaultCode,
    where: str,
    work: Coroutine[object, object, object],
    limit_s: float,
    owner: object,
) -> CodeFault:
    """Return the fault of code that ran too long: its place is the line of the bundle's code that waits."""
    file, line = _last_place(_waiting_places(work), _folder_of(owner)) or place_of(owner)
    reason = f"it ran longer than {limit_s:g} seconds"
    return CodeFault(bundle=bundle, code=code, where=where, file=file, line=line, reason=reason)


def fault_at(bundle: str, code: FaultCode, where: str, reason: str, owner: object) -> CodeFault:
    """Return a fault at the definition of a function or class."""
    file, line = place_of(owner)
    return CodeFault(bundle=bundle, code=code, where=where, file=file, line=line, reason=_clean(reason))


def place_of(owner: object) -> tuple[str, int]:
    """Return the file name and the line of a definition; `?` and 0 if they are unknown."""
    try:
        return Path(_source_file(owner) or "?").name, inspect.getsourcelines(cast("type", owner))[1]
    except (OSError, TypeError):
        return "?", 0


def _source_file(owner: object) -> str | None:
    try:
        return inspect.getsourcefile(cast("type", owner))
    except TypeError:
        return None


def _folder_of(owner: object) -> str:
    file = _source_file(owner)
    return str(Path(file).parent) if file else ""


def _waiting_places(work: object) -> list[_Place]:
    """Return the lines in which a coroutine and those that it awaits wait, the outermost first."""
    places: list[_Place] = []
    while inspect.iscoroutine(work) and work.cr_frame:
        places.append((work.cr_frame.f_code.co_filename, work.cr_frame.f_lineno))
        work = work.cr_await
    return places


def _last_place(places: Sequence[_Place], folder: str) -> _Place | None:
    """Return the last place in the bundle's folder; without one, the last that is neither in timeloom nor in Python."""
    found = [one for one in places if folder and one[0].startswith(f"{folder}/")]
    found = found or [one for one in places if not one[0].startswith(_FOREIGN)]
    return (Path(found[-1][0]).name, found[-1][1]) if found else None


def _clean(text: str) -> str:
    clean = " ".join(strip_host_paths(SECRETS.redact(text), _NOWHERE).split())
    return clean if len(clean) <= MAX_REASON_CHARS else clean[: MAX_REASON_CHARS - 1] + "…"
