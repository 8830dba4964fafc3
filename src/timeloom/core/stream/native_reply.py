"""A reply of native tool calling: its text and tool calls, the form in which calls are recorded, and the live view."""

from typing import Final

import msgspec

from timeloom.core.stream.channels import DECISION
from timeloom.core.stream.live_reply import ANSWER, SHOWN_FIELDS, LiveDelta, LiveReply

COMPLETE: Final = "complete"
"""The function that ends a turn with an answer, suggested followups and a summary. Plain text is an answer, too."""

CALL_TOOL: Final = "call_tool"
"""The function that calls a tool that has no function of its own."""

CODE_PARAM: Final = "code"
"""The parameter of a function that holds the program of a tool that runs code."""

MAX_HELD_CHARS: Final = 300
"""Characters of text that wait until it is known whether they are notes. With fewer, longer notes are shown as an
answer; with more, answers appear later."""


class NativeCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call of a reply: the function's name and the JSON text of its arguments, as the model wrote them.

    `tool_id` is the tool of the function; empty for a function of the runtime and for an unknown name.
    """

    name: str
    arguments: str
    tool_id: str = ""


class NativeReply(msgspec.Struct, frozen=True):
    """The text and the tool calls of a reply."""

    text: str = ""
    calls: tuple[NativeCall, ...] = ()

    def as_text(self) -> str:
        """Return the reply as one text, as notices quote it."""
        return "\n".join([*([self.text] if self.text else []), *(f"{one.name} {one.arguments}" for one in self.calls)])


def encode_calls(calls: tuple[NativeCall, ...]) -> str:
    """Return the canonical text of the calls; empty if there are none."""
    return msgspec.json.encode(calls).decode() if calls else ""


def decode_calls(text: str) -> tuple[NativeCall, ...]:
    """Return the recorded calls; none for a text that is not a list of calls, such as erased text."""
    try:
        return _CALLS.decode(text) if text else ()
    except msgspec.MsgspecError:
        return ()


class LiveNativeReply:
    """Receives a reply in pieces and returns the text that clients see.

    Whether text is the answer or the notes of a call shows only when a call begins or the reply ends. So the beginning
    of the text waits: notes are short. Longer text is shown as the answer. Arguments are shown as the same fields of a
    decision are.
    """

    def __init__(self) -> None:
        self._calls: dict[int, _LiveCall] = {}
        self._held = ""
        self._is_answer = False

    def feed_text(self, text: str) -> list[LiveDelta]:
        """Return the visible text in the next piece of the text."""
        if self._is_answer:
            return [LiveDelta(ANSWER, 0, text)]
        self._held += text
        if len(self._held) <= MAX_HELD_CHARS or self._calls or self._held.lstrip().startswith("<"):
            return []
        self._is_answer = True
        return self._release(ANSWER)

    def begin_call(self, index: int, name: str, *, runs_code: bool) -> list[LiveDelta]:
        """Begin the call with that index, and return the notes before it."""
        shown = [] if self._calls else self._release("timeline_text")
        self._calls[index] = _LiveCall(index, name, runs_code=runs_code)
        return shown

    def close(self) -> list[LiveDelta]:
        """Return the visible text at the end of a complete reply."""
        return [] if self._calls else self._release(ANSWER)

    def _release(self, channel: str) -> list[LiveDelta]:
        held, self._held = self._held, ""
        # Text that begins with a tag may be thoughts, or channels that are refused.
        return [LiveDelta(channel, 0, held)] if held and not held.lstrip().startswith("<") else []

    def feed_call(self, index: int, text: str) -> list[LiveDelta]:
        """Return the visible text in the next piece of the arguments of a call that has begun."""
        return self._calls[index].feed(text)


class _LiveCall:
    """Reads the arguments of one call as the decision that they stand for."""

    def __init__(self, index: int, name: str, *, runs_code: bool) -> None:
        self._index = index
        self._reply = LiveReply(fields={**SHOWN_FIELDS, **_CODE_FIELD} if runs_code else SHOWN_FIELDS)
        # Everything after the first brace continues the object that is begun here.
        self._awaits_brace = True
        self._opening = _OPENINGS.get(name, _CALL_OPENING)

    def feed(self, text: str) -> list[LiveDelta]:
        if self._awaits_brace:
            _, brace, text = text.partition("{")
            if not brace:
                return []
            self._awaits_brace = False
            self._reply.feed(self._opening)
        # A tag in a string must not end the channel. Outside strings, JSON has no such character.
        shown = self._reply.feed(text.replace("<", "\\u003c"))
        return [msgspec.structs.replace(one, index=self._index) for one in shown]


_CALLS: Final = msgspec.json.Decoder(tuple[NativeCall, ...])
_CALL_OPENING: Final = f'<channel:{DECISION}>{{"action":"call_tool","tool_call":{{"params":{{'
_OPENINGS: Final = {
    COMPLETE: f"<channel:{DECISION}>{{",
    CALL_TOOL: f'<channel:{DECISION}>{{"action":"call_tool","tool_call":{{',
}
_CODE_FIELD: Final = {f"tool_call.params.{CODE_PARAM}": "code"}
