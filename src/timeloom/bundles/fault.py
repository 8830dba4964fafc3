"""Faults of bundles: what failed, with the file and the line, in a text without paths of the host."""

import linecache
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.platform.secrets import SECRETS
from timeloom.tools.errors import strip_host_paths

MAX_REASON_CHARS: Final = 600
"""Longest reason in a fault's text. Less cuts messages of validators short; more fills the answers of requests."""

_NOWHERE: Final = Path("/nonexistent")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFault:
    """Why a bundle is disabled."""

    bundle: str
    code: str
    """The code of the fault, such as `bundle_invalid` or `hook_failed`."""
    file: str
    """The name of the file, without the folder of the bundle; empty if it is unknown."""
    line: int
    """The line of the fault; 0 if it is unknown."""
    reason: str

    @property
    def place(self) -> str:
        """The file and the line, as far as they are known."""
        return f"{self.file}, line {self.line}" if self.line else self.file

    @property
    def text(self) -> str:
        """The fault in one sentence, for people who may use the bundle."""
        return f"the bundle {self.bundle} is disabled: {f'{self.place}: ' if self.file else ''}{self.reason}"


class BundleError(CodedError):
    """A bundle is described wrongly; the message names the file and the line."""

    def __init__(self, message: str, *, file: str = "", line: int = 0) -> None:
        place = f"{file}, line {line}: " if line else f"{file}: " if file else ""
        super().__init__("bundle_invalid", f"{place}{message}")
        self.file, self.line, self.reason = file, line, message


class BundleNotFoundError(CodedError):
    """There is no folder, package or object of this name; the command line is wrong, not the bundle."""

    def __init__(self, message: str) -> None:
        super().__init__("bundle_unknown", message)


def to_bundle_error(error: BaseException, folder: Path | None) -> BundleError:
    """Return an error of a bundle's code with its place: the last line that belongs to the folder."""
    if isinstance(error, BundleError):
        return error
    file, line = _place_of(error, folder)
    text = str(error) if isinstance(error, CodedError) else _describe(error)
    clean = SECRETS.redact(" ".join(strip_host_paths(text, _NOWHERE).split()))
    clean = clean if len(clean) <= MAX_REASON_CHARS else clean[: MAX_REASON_CHARS - 1] + "…"
    return BundleError(clean, file=file, line=line)


def to_fault(bundle: str, error: BundleError) -> BundleFault:
    """Return the fault of a bundle that cannot be loaded."""
    return BundleFault(bundle=bundle, code="bundle_invalid", file=error.file, line=error.line, reason=error.reason)


def name_file(file: str, folder: Path | None) -> str:
    """Return the name of a file for people: relative to the bundle's folder, otherwise without its folders."""
    path = Path(file)
    return path.relative_to(folder).as_posix() if folder and path.is_relative_to(folder) else path.name


def _place_of(error: BaseException, folder: Path | None) -> tuple[str, int]:
    if isinstance(error, SyntaxError) and error.filename:
        return name_file(error.filename, folder), error.lineno or 0
    # A changed file must not be quoted with its old lines.
    linecache.checkcache()
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if folder and Path(frame.filename).is_relative_to(folder)]
    return (name_file(own[-1].filename, folder), own[-1].lineno or 0) if own else ("", 0)


def _describe(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    if isinstance(error, SystemExit):
        return "it tried to end the process"
    return f"{type(error).__name__}: {error}"
