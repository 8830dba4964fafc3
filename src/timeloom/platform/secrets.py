"""Resolves references to secrets (`env:`, `file:`, `command:`) and removes their values from texts.

A reference says where a secret is and may stand in settings and bundles. Its value is read when trusted code needs it.
Every value that was read is remembered in `SECRETS`, so that errors, results, logs and spans can be cleaned of it.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, cast

import msgspec

from timeloom.core.codes import CodedError
from timeloom.platform.secret_command import SecretCommandError, read_command_output
from timeloom.platform.secret_text import MASK, RedactingFilter, SecretRegistry, SecretText

SecretKind = Literal["env", "file", "command"]

MAX_SECRET_BYTES: Final = 64 * 1024
"""Largest secret. A smaller limit refuses certificate chains; a larger one reads a wrong file for long."""

COMMAND_S: Final = 20.0
"""Deadline of a `command:`. Less refuses password stores that ask a token; more delays the start of a server."""

REFERENCE_FORMS: Final = "`env:NAME`, `file:PATH` or `command:COMMAND`"

_REFERENCE: Final = re.compile(r"(env|file|command):([^\0\r\n]+)", re.DOTALL)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY: Final = re.compile(r"[!-~]+")
_SHOWN_CHARS: Final = 120

SECRETS: Final = SecretRegistry()
"""The values of this process that may appear in no prompt, log, error or span."""

__all__ = [
    "MASK",
    "REFERENCE_FORMS",
    "SECRETS",
    "RedactingFilter",
    "SecretError",
    "SecretReference",
    "SecretRegistry",
    "SecretText",
    "is_reference",
    "parse_reference",
    "resolve_key",
    "resolve_secret",
]


class SecretError(CodedError):
    """A text is no reference to a secret, or its secret cannot be read; the message never contains the value."""

    def __init__(self, code: Literal["secret_malformed", "secret_unavailable"], message: str) -> None:
        super().__init__(code, message)


class SecretReference(msgspec.Struct, frozen=True):
    """Where a secret is: the name of a variable, the path of a file, or a command that prints it."""

    kind: SecretKind
    target: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}"

    def anchored(self, folder: Path) -> "SecretReference":
        """Return the reference with the path of a file relative to this folder; others unchanged."""
        if self.kind != "file" or self.target.startswith("~"):
            return self
        return SecretReference("file", str(folder / self.target))


def is_reference(text: str) -> bool:
    """Return whether the text has the form of a reference."""
    return _REFERENCE.fullmatch(text) is not None


def parse_reference(text: str) -> SecretReference:
    """Parse a reference; raises `SecretError`, whose message does not repeat a text that may be the secret itself."""
    if not (match := _REFERENCE.fullmatch(text)):
        raise SecretError(
            "secret_malformed", f"the text is no reference to a secret (it may be one); expected {REFERENCE_FORMS}"
        )
    kind, target = cast(SecretKind, match[1]), match[2].strip()
    if not target or (kind == "env" and not _VARIABLE.fullmatch(target)):
        needed = {"env": "the name of a variable", "file": "a path", "command": "a command"}[kind]
        raise SecretError("secret_malformed", f"{_shown(text)} must have {needed} after the colon")
    return SecretReference(kind, target)


def resolve_secret(reference: str | SecretReference, environ: Mapping[str, str] | None = None) -> SecretText:
    """Return the secret of a reference without one newline at its end, and remember it in `SECRETS`.

    Reads a variable, a file or the output of a command, which may block for up to `COMMAND_S` seconds. Raises
    `SecretError`, which names the reference and the fix, and never the value.
    """
    parsed = parse_reference(reference) if isinstance(reference, str) else reference
    environ = os.environ if environ is None else environ
    match parsed.kind:
        case "env":
            value = environ.get(parsed.target, "")
        case "file":
            value = _decode(parsed, _read_file(parsed))
        case "command":
            value = _decode(parsed, _run_command(parsed, environ))
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise _unavailable(parsed, {"env": "the variable is not set", "file": "the file is empty"}.get(parsed.kind))
    return SECRETS.remember(value)


def resolve_key(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return an API key or token: the secret of a reference, or the text itself; both are remembered in `SECRETS`.

    A key is sent in a header. So one with spaces, line breaks or other characters is refused with `SecretError`.
    """
    if not is_reference(text):
        return SECRETS.remember(text).reveal() if text else text
    key = resolve_secret(text, environ).reveal()
    if not _KEY.fullmatch(key):
        raise SecretError(
            "secret_unavailable",
            f"the secret {_shown(text)} is no key: it has spaces, several lines or characters other than ASCII",
        )
    return key


def _read_file(reference: SecretReference) -> bytes:
    try:
        # Without O_NONBLOCK, a pipe without a writer would block the process.
        descriptor = os.open(Path(reference.target).expanduser(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _unavailable(reference, "it is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(MAX_SECRET_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unavailable(reference, f"the file cannot be read: {error.strerror}") from None
    except RuntimeError:
        raise _unavailable(reference, "the home folder of `~` is unknown; write the path without `~`") from None


def _run_command(reference: SecretReference, environ: Mapping[str, str]) -> bytes:
    try:
        return read_command_output(reference.target, environ, MAX_SECRET_BYTES + 1, COMMAND_S)
    except SecretCommandError as failure:
        raise _unavailable(reference, str(failure)) from None


def _decode(reference: SecretReference, data: bytes) -> str:
    if len(data) > MAX_SECRET_BYTES:
        raise _unavailable(reference, f"it has more than {MAX_SECRET_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        # The original error contains the bytes.
        raise _unavailable(reference, "its bytes are not UTF-8") from None


def _unavailable(reference: SecretReference, reason: str | None) -> SecretError:
    why = reason or "the command printed nothing"
    return SecretError("secret_unavailable", f"the secret {_shown(str(reference))} cannot be read: {why}")


def _shown(reference: str) -> str:
    return ascii(reference if len(reference) <= _SHOWN_CHARS else f"{reference[:_SHOWN_CHARS]}…")
