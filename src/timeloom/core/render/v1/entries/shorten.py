"""Shortens the text of one entry to head and tail, with the path and the lines of the missing part."""

from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.blocks import ExternalEvent, Followup, ResultContent, ResultStatus, Steer, ToolTraits, UserPrompt
from timeloom.core.blocks.block import ERASED
from timeloom.core.paths import EntriesPath
from timeloom.core.payload import BlobRef, Text
from timeloom.core.render.entry_text import NO_PAYLOADS, Payloads, load_text
from timeloom.core.render.foreign_text.fence import escape_reserved, fence, one_line
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.v1.entries.block_text import entry_text
from timeloom.core.timeline import Entry

MAX_PATH_CHARS: Final = 1_200

TAIL_SHARE: Final = 4
"""A quarter of a shortened text shows its end, where results often have their sum or error."""


PART_CHARS: Final = 1_000
"""Minimum length of a shortened text that also names the call for its missing lines."""

TextForm = Literal["words", "fenced", "rendered"]


class _Body(msgspec.Struct, frozen=True):
    """The text inside a rendered entry as it is stored, with the rendered parts before and after it."""

    text: str
    form: TextForm
    """How the text is escaped; `rendered` if it already is."""
    before: str = ""
    after: str = ""

    def escape(self, part: str) -> str:
        """Return a part of the text in the form in which a prompt shows it."""
        match self.form:
            case "words":
                return escape_reserved(part)
            case "fenced":
                return fence(part)
            case "rendered":
                return part
            case _:
                assert_never(self.form)


def shorten_entry(
    entry: Entry,
    chars: int,
    payloads: Payloads = NO_PAYLOADS,
    tool_id: str = "",
    traits: ToolTraits | None = None,
) -> str:
    """Return head and tail of the entry's text, at most about `chars` characters, with the call that reads the rest.

    `tool_id` and `traits` are those of the entry's call.
    """
    made = entry_text(entry, tool_id, payloads, traits)
    whole = made.text.removesuffix("\n\n")
    path = one_line(entry.path or str(EntriesPath.from_numbers([entry.seq])), MAX_PATH_CHARS)
    read = f"react.read({json_line([path])})"
    if made.data is not None:
        return f"{whole[:chars].rstrip()}\n[READ] attached {one_line(made.mime)}: {read}".lstrip("\n")
    body = _find_body(entry, whole, payloads)
    if len(body.before) + len(body.text) + len(body.after) <= chars:
        return f"{body.before}{body.escape(body.text)}{body.after}".removesuffix("\n")
    left = chars - len(body.before) - len(body.after)
    end, start = _cut(body.text, max(0, left), whole_lines=body.form == "rendered")
    head, tail = body.text[:end], body.text[start:]
    shown = [
        f"{body.before}{body.escape(head)}".rstrip("\n") if left > 0 else "",
        f"[READ] {start - end} more characters: {read}{_missing_part(body, end, start, path, chars)}",
        body.escape(tail),
        body.after.strip("\n"),
    ]
    return "\n".join(one for one in shown if one).removesuffix("\n")


def _missing_part(body: _Body, end: int, start: int, path: str, chars: int) -> str:
    """Return the missing lines and how to read them, if their numbers are those of the stored text."""
    if body.form == "rendered":
        return ""
    first, last = body.text.count("\n", 0, end) + 1, body.text.count("\n", 0, max(end, start - 1)) + 1
    lines = f"lines {first} to {last}" if last > first else f"in line {first}"
    if chars < PART_CHARS:
        return f"; {lines}"
    symbol = end - body.text.rfind("\n", 0, end)
    item: dict[str, str | int] = {"path": path, "line_start": first, "line_count": last - first + 1}
    return f"; {lines}: react.read(items=[{json_line(item if symbol == 1 else item | {'symbol_start': symbol})}])"


def _find_body(entry: Entry, whole: str, payloads: Payloads) -> _Body:
    """Return the stored text inside the rendered one; of other entries, the rendered text as it is."""
    text = _stored_text(entry, payloads)
    if not text or text.startswith(ERASED):
        return _Body(whole, "rendered")
    forms: tuple[tuple[TextForm, str], ...] = (("words", escape_reserved(text)), ("fenced", fence(text)))
    for form, body in forms:
        shown = "\n" + body.removesuffix("\n")
        if (at := whole.find(shown)) >= 0:
            return _Body(text, form, whole[: at + 1], whole[at + len(shown) :])
    if isinstance(entry.block, UserPrompt | Followup | Steer):
        # The prompt shows only the beginning of a very long message, behind its header.
        at = whole.index("\n", whole.index("\n[path: ") + 1) + 1
        return _Body(text, "words", whole[:at])
    return _Body(whole, "rendered")


def _stored_text(entry: Entry, payloads: Payloads) -> str:
    match entry.block:
        case UserPrompt(text=text) | Followup(text=text) | Steer(text=text) | ExternalEvent(text=text):
            return load_text(text, payloads)
        case ResultContent(text=str() | BlobRef() as text) | ResultStatus(text=text):
            return _known_text(text, payloads)
        case _:
            return ""


def _known_text(text: Text, payloads: Payloads) -> str:
    """Return the text; empty if it is stored apart and only its preview is shown."""
    return "" if isinstance(text, BlobRef) and text not in payloads else load_text(text, payloads)


def _cut(text: str, chars: int, *, whole_lines: bool) -> tuple[int, int]:
    """Return where the head ends and the tail starts, about `chars` characters together.

    They are complete lines where the lines are short enough. With `whole_lines`, the tail always is.
    """
    end, start = chars - chars // TAIL_SHARE, len(text) - chars // TAIL_SHARE
    line_end, line_start = text.rfind("\n", 0, end) + 1, text.find("\n", start - 1) + 1 or len(text)
    if line_end * 2 >= end:
        end = line_end
    if whole_lines or line_start <= (start + len(text)) // 2:
        start = line_start
    return end, start
