"""Shortens the text of one entry to head and tail, with the path and the lines of the missing part."""

import re
from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.blocks import Completion, ExternalEvent, Followup, ResultContent, ResultStatus, Steer, UserPrompt
from timeloom.core.blocks.block import ERASED
from timeloom.core.paths import EntriesPath
from timeloom.core.payload import BlobRef, Text
from timeloom.core.render.entry_text import NO_PAYLOADS, EntryText, Payloads, load_text
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.fence import end_with_break, fence_text, fence_words
from timeloom.core.timeline import Entry

MAX_PATH_CHARS: Final = 1_200

TAIL_SHARE: Final = 4
"""A quarter of a shortened text shows its end, where results often have their sum or error."""

PART_CHARS: Final = 1_000
"""Minimum length of a shortened text that also names the call for its missing lines."""

TextForm = Literal["words", "fenced", "rendered"]

# Tags of foreign text are escaped, so these are the runtime's.
_TAG: Final = re.compile(r"<(/?)channel:([a-z_]+)>")
_BEGIN: Final = re.compile(r"(\[[^\n]*|<channel:[a-z_]+>)\n")
_END: Final = re.compile(r"\n(\[/[^\n]*\]|</channel:[a-z_]+>)\Z")


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
                return fence_words(part)
            case "fenced":
                return fence_text(part)
            case "rendered":
                return part
            case _:
                assert_never(self.form)


def shorten_text(made: EntryText, entry: Entry, chars: int, names: Names, payloads: Payloads = NO_PAYLOADS) -> str:
    """Return head and tail of the entry's text, at most about `chars` characters, with the call that reads the rest.

    `made` is the complete text of the entry. Each part is fenced anew, so that it is safe wherever it was cut.
    """
    whole = made.text.strip("\n")
    path = one_line(names.path(entry.path) or str(EntriesPath.from_numbers([entry.seq])), MAX_PATH_CHARS)
    read = f"react.read({json_line([path])})"
    if made.data is not None:
        return f"{whole[:chars].rstrip()}\n[READ] attached {one_line(made.mime)}: {read}".lstrip("\n")
    body = _find_body(entry, whole, payloads)
    if len(body.before) + len(body.text) + len(body.after) <= chars:
        return body.before + body.escape(body.text).removesuffix("\n") + body.after
    left = chars - len(body.before) - len(body.after)
    if left <= 0:
        return f"[READ] {len(body.text)} more characters: {read}{_missing_part(body, 0, len(body.text), path, chars)}"
    end, start = _cut(body, left)
    missing = f"[READ] {start - end} more characters: {read}{_missing_part(body, end, start, path, chars)}"
    head = end_with_break(body.before + _close_channel(body.escape(body.text[:end]).rstrip("\n")))
    tail = body.escape(body.text[start:]).removesuffix("\n")
    return head + missing + (f"\n{tail}" if tail else "") + body.after


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
    """Return the stored text inside the rendered one; of other entries, the rendered text inside its own lines."""
    text = _stored_text(entry, payloads)
    if text and not text.startswith(ERASED):
        forms: tuple[tuple[TextForm, str], ...] = (("words", fence_words(text)), ("fenced", fence_text(text)))
        for form, body in forms:
            shown = "\n" + body.removesuffix("\n")
            at = whole.find(shown)
            if at >= 0 and whole[at + len(shown) :][:1] in ("", "\n"):
                return _Body(text, form, whole[: at + 1], whole[at + len(shown) :])
        if isinstance(entry.block, UserPrompt | Followup | Steer):
            # The prompt shows only the beginning of a very long message, behind its header.
            return _Body(text, "words", whole[: whole.index("\n") + 1])
    begin, end = _BEGIN.match(whole), _END.search(whole)
    if begin and end and begin.end() <= end.start() and not _TAG.search(whole, begin.end(), end.start()):
        return _Body(whole[begin.end() : end.start()], "rendered", begin[0], end[0])
    return _Body(whole, "rendered")


def _stored_text(entry: Entry, payloads: Payloads) -> str:
    match entry.block:
        case (
            UserPrompt(text=text)
            | Followup(text=text)
            | Steer(text=text)
            | ExternalEvent(text=text)
            | Completion(text=text)
        ):
            return load_text(text, payloads)
        case ResultContent(text=str() | BlobRef() as text) | ResultStatus(text=text):
            return _known_text(text, payloads)
        case _:
            return ""


def _known_text(text: Text, payloads: Payloads) -> str:
    """Return the text; empty if it is stored apart and only its preview is shown."""
    return "" if isinstance(text, BlobRef) and text not in payloads else load_text(text, payloads)


def _cut(body: _Body, chars: int) -> tuple[int, int]:
    """Return where the head ends and the tail starts, about `chars` characters together.

    They are complete lines where the lines are short enough. The tail of rendered text always is; if that text consists
    of several channels, it has no tail, since the tail could begin inside a channel.
    """
    text = body.text
    end, start = chars - chars // TAIL_SHARE, len(text) - chars // TAIL_SHARE
    line_end, line_start = text.rfind("\n", 0, end) + 1, text.find("\n", start - 1) + 1 or len(text)
    if line_end * 2 >= end:
        end = line_end
    if body.form == "rendered" and _TAG.search(text):
        # A tag is kept or left out as a whole.
        return next((tag.start() for tag in _TAG.finditer(text) if tag.start() < end < tag.end()), end), len(text)
    if body.form == "rendered" or line_start <= (start + len(text)) // 2:
        start = line_start
    return end, start


def _close_channel(head: str) -> str:
    """Return the beginning of a rendered text with its last channel closed."""
    found = list(_TAG.finditer(head))
    if not found or found[-1][1]:
        return head
    return f"{head}</channel:{found[-1][2]}>"
