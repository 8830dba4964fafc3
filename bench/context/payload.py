"""Finds the payload that a prompt shows of an entry: recorded text and parameters, as much of them as is shown.

Whatever else the prompt shows for the entry is framing. Text that is recorded but not shown never counts, and text that
is shown twice counts once. So a renderer cannot look better by leaving out what it should show.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    Completion,
    ExternalEvent,
    Followup,
    Note,
    Notes,
    RangeSummary,
    ReactCompletion,
    ResultContent,
    ResultStatus,
    Steer,
    Thinking,
    ToolCall,
    ToolCode,
    UserPrompt,
    WorkingSummary,
)

_MARK: Final = re.compile(r"^(?:[0-9]*\| ?|~+)")
"""The mark of a line of foreign text: a bar after a line number or without one, or escapes."""

_ESCAPED: Final = re.compile(r"(</?|\[)~+(?=channel:|\[S:)", re.IGNORECASE)
_NOT_SHOWN: Final = object()
_MIN_PART_CHARS: Final = 12
"""A shorter part of a line may be there by chance."""


def shown_payload(block: AnyBlock, shown: str) -> tuple[str, ...]:
    """Return the pieces of the block's recorded text and parameters that the prompt shows, as they were recorded."""
    plain = _ESCAPED.sub(r"\1", shown)
    match block:
        case ToolCall(params=str(params)):
            return _shown_params(params, plain)
        case Completion(text=str(text), suggested_followups=offers):
            return (*shown_text(text, plain), *(offer for offer in offers if offer in plain))
        case ResultStatus(text=str(text), error=error):
            return shown_text(text, plain) or shown_text(error.message if error else "", plain)
        case ResultContent(text=str(text)) | Attachment(text=str(text)) | ToolCode(text=str(text)):
            return shown_text(text, plain)
        case UserPrompt(text=str(text)) | Followup(text=str(text)) | Steer(text=str(text)):
            return shown_text(text, plain)
        case Thinking(text=str(text)) | Notes(text=str(text)) | Note(text=str(text)) | ReactCompletion(text=str(text)):
            return shown_text(text, plain)
        case RangeSummary(text=str(text)) | WorkingSummary(text=str(text)) | ExternalEvent(text=str(text)):
            return shown_text(text, plain)
        case _:
            # The runtime wrote the rest: turns, rounds, notices, gates, digests.
            return ()


def shown_text(recorded: str, shown: str) -> tuple[str, ...]:
    """Return the parts of the recorded text whose lines are shown, in order; adjacent lines are one part."""
    if not recorded.strip():
        return ()
    if recorded in shown:
        return (recorded,)
    lines = recorded.splitlines(keepends=True)
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line.rstrip("\r\n"), []).append(number)
    parts: list[str] = []
    at, last = 0, -2
    for line in shown.splitlines():
        found = _find_line(line, lines, places, at)
        if found is None:
            continue
        number, text = found
        if number == last + 1 and parts:
            parts[-1] += text
        else:
            parts.append(text)
        at, last = number + 1, number
    return tuple(part for part in parts if part.strip())


def _find_line(line: str, lines: Sequence[str], places: dict[str, list[int]], at: int) -> tuple[int, str] | None:
    """Return the recorded line that this line shows, from `at` on, and the text that it shows of it."""
    if at >= len(lines):
        return None
    bare = _MARK.sub("", line)
    expected = lines[at].rstrip("\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
    if expected in (line, bare) or (expected.strip() and expected.strip() in line):
        return at, lines[at]
    if len(bare) >= _MIN_PART_CHARS:
        for text in (line, bare):
            later = places.get(text, [])
            if (place := bisect_left(later, at)) < len(later):
                return later[place], lines[later[place]]
        if expected.startswith(bare):
            return at, bare
    return None


def _shown_params(params: str, shown: str) -> tuple[str, ...]:
    """Return the parameters in compact JSON without what is not shown of their texts, and texts that stand outside.

    A model may have written other letters as they are or as escapes, and a prompt shows them in either form.
    """
    found = [_ShownParams(params, shown, encode) for encode in (_plain_json, _ascii_json)]
    return max(found, key=lambda one: one.text_chars).pieces


class _ShownParams:
    """The shown pieces of parameters, if the prompt shows JSON in the form of `encode`."""

    def __init__(self, params: str, shown: str, encode: Callable[[object], str]) -> None:
        self.text_chars = 0
        """Characters of all texts that were found."""
        self._shown = shown
        self._encode = encode
        self._outside: list[str] = []
        value = self._value(msgspec.json.decode(params))
        self.pieces = (encode(value), *self._outside)

    def _value(self, value: object) -> object:
        """Return the value without the texts that the JSON does not show."""
        match value:
            case str():
                return self._string(value)
            case dict():
                items = cast("dict[str, object]", value).items()
                inner = {key: self._value(one) for key, one in items}
                return {key: one for key, one in inner.items() if one is not _NOT_SHOWN}
            case list():
                inner = [self._value(one) for one in cast("list[object]", value)]
                return [one for one in inner if one is not _NOT_SHOWN]
            case _:
                return value

    def _string(self, text: str) -> object:
        """Return the part of the text that stands inside the JSON; if more stands outside, that is added there."""
        if self._encode(text) in self._shown:
            self.text_chars += len(text)
            return text
        chars = bisect_left(range(1, len(text) + 1), True, key=lambda n: self._encode(text[:n])[:-1] not in self._shown)
        raw = shown_text(text, self._shown)
        self.text_chars += max(chars, sum(map(len, raw)))
        if sum(map(len, raw)) > chars:
            self._outside.extend(raw)
            return _NOT_SHOWN
        return text[:chars] if chars else _NOT_SHOWN


def _plain_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _ascii_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
