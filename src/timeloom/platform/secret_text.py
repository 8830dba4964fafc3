"""Hides the values of secrets: a text with a masked `repr`, and a registry that removes known secrets from texts."""

import hmac
import logging
import threading
from collections.abc import Mapping
from typing import Final, NoReturn, TypeVar, cast
from urllib.parse import quote, quote_plus

import msgspec

MASK: Final = "[secret]"
"""The text that stands in place of a secret."""

MIN_SECRET_CHARS: Final = 8
"""Shortest value that is removed from texts. Shorter ones, such as `test`, would also remove ordinary words."""

MIN_LINE_CHARS: Final = 16
"""Shortest line of a secret with several lines that is also removed alone, as in a text that was joined or cut."""

T = TypeVar("T")


class SecretText:
    """A secret. Only `reveal()` returns its value; printing, formatting and encoding show a mask or fail."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value; pass it on to trusted code only."""
        return self._value

    def __repr__(self) -> str:
        return f"SecretText({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str, /) -> str:
        return format(MASK, spec)

    def __len__(self) -> int:
        return len(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((SecretText, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied into a file; resolve its reference again")


class SecretRegistry:
    """The secrets that a process has read, as the forms in which they may appear in a text."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()
        self._encoded: tuple[bytes, ...] = ()
        self._lock = threading.Lock()

    def remember(self, value: str) -> SecretText:
        """Return the value as a secret that `redact` removes from now on, unless it is shorter than 8 characters."""
        if len(value) >= MIN_SECRET_CHARS and value not in self._forms:
            with self._lock:
                # Longest first: a secret may be the beginning of another one.
                forms = sorted({*self._forms, *_forms_of(value)}, key=len, reverse=True)
                self._encoded = tuple(form.encode("utf-8", "surrogatepass") for form in forms)
                self._forms = tuple(forms)
        return SecretText(value)

    def redact(self, text: str) -> str:
        """Return the text with `[secret]` in place of every known secret: plain, quoted for URLs, or escaped."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def redact_bytes(self, data: bytes) -> bytes:
        """Return the bytes with `[secret]` in place of every known secret."""
        for form in self._encoded:
            if form in data:
                data = data.replace(form, MASK.encode())
        return data

    def redact_value(self, value: T) -> T:
        """Return the value with its texts and bytes redacted: in tuples, lists, mappings and Structs, at any depth."""
        return cast(T, self._redact(value)) if self._forms else value

    def _redact(self, value: object) -> object:
        match value:
            case str():
                return self.redact(value)
            case bytes():
                return self.redact_bytes(value)
            case msgspec.Struct():
                return self._redact_struct(value)
            case tuple() | list():
                redacted = [self._redact(item) for item in cast("tuple[object, ...] | list[object]", value)]
                return tuple(redacted) if isinstance(value, tuple) else redacted
            case Mapping():
                fields = cast("Mapping[object, object]", value)
                return {self._redact(name): self._redact(inner) for name, inner in fields.items()}
            case _:
                return value

    def _redact_struct(self, value: msgspec.Struct) -> msgspec.Struct:
        changed: dict[str, object] = {}
        for name in value.__struct_fields__:
            before: object = getattr(value, name)
            after = self._redact(before)
            if after is not before and after != before:
                changed[name] = after
        return msgspec.structs.replace(value, **changed) if changed else value


class RedactingFilter(logging.Filter):
    """Removes known secrets from the messages and tracebacks of log records."""

    def __init__(self, secrets: SecretRegistry) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record in place and keep it."""
        message = record.getMessage()
        if (clean := self._secrets.redact(message)) != message:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[0]:
            text = logging.Formatter().formatException(record.exc_info)
            if (clean := self._secrets.redact(text)) != text:
                # Formatters print `exc_text` in place of the exception, whose text contains the secret.
                record.exc_text, record.exc_info = clean, None
        return True


def _forms_of(value: str) -> set[str]:
    lines = [line for line in value.splitlines() if len(line) >= MIN_LINE_CHARS and not line.startswith("-----")]
    plain = {value, *(lines if len(lines) > 1 else ())}
    return {form for one in plain for form in _escaped_forms(one)}


def _escaped_forms(value: str) -> tuple[str, ...]:
    return (
        value,
        quote(value, safe="", errors="replace"),
        quote_plus(value, errors="replace"),
        msgspec.json.encode(value)[1:-1].decode(),
        repr(value)[1:-1],
    )
