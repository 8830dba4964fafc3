"""Writes the replies of a scripted model, so that tests contain no channel tags."""

from typing import Final, Self

import msgspec

from timeloom.providers.script_file import Step, StepError

THOUGHT: Final = "The next step is clear."


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One decision of a scripted reply as JSON text, with its code and its summary."""

    decision: str
    code: str | None = None
    summary: str = ""


class ScriptedReply(str):
    """A reply in the channels of a model; its methods return a copy with one more part."""

    actions: tuple[Action, ...]
    thinking: str

    def __new__(cls, actions: tuple[Action, ...], thinking: str = THOUGHT) -> Self:
        """Write the channels of these actions."""
        reply = super().__new__(cls, _channel("thinking", thinking) + "".join(map(_write_action, actions)))
        reply.actions, reply.thinking = actions, thinking
        return reply

    def with_thinking(self, text: str) -> "ScriptedReply":
        """Return the reply with these thoughts."""
        return ScriptedReply(self.actions, text)

    def with_notes(self, text: str) -> "ScriptedReply":
        """Return the reply with notes, which the user reads while the turn runs."""
        decision = msgspec.json.decode(self.actions[-1].decision, type=dict[str, object])
        return self._replace_last(decision=_encode({**decision, "notes": text}))

    def with_code(self, code: str) -> "ScriptedReply":
        """Return the reply with a program, for a call of a tool that runs code."""
        return self._replace_last(code=code)

    def with_summary(self, text: str) -> "ScriptedReply":
        """Return the reply with a working summary, which may accompany a final answer."""
        return self._replace_last(summary=text)

    def _replace_last(self, **changes: object) -> "ScriptedReply":
        last = msgspec.structs.replace(self.actions[-1], **changes)
        return ScriptedReply((*self.actions[:-1], last), self.thinking)


def call(tool_id: str, /, **params: object) -> ScriptedReply:
    """Return a reply that calls the tool with these parameters, which may be of any type that JSON can hold."""
    return _reply({"action": "call_tool", "tool_call": {"tool_id": tool_id, "params": params}})


def says(answer: object, *, followups: tuple[str, ...] = ()) -> ScriptedReply:
    """Return a reply with this final answer: a text, or a value of the agent's output type, written as JSON."""
    text = answer if isinstance(answer, str) else _encode(answer)
    suggested: dict[str, object] = {"suggested_followups": followups} if followups else {}
    return _reply({"action": "complete", "final_answer": text, **suggested})


def several(*replies: ScriptedReply) -> ScriptedReply:
    """Return one reply with the actions of all these replies; the setting `react.multi_action` must allow several."""
    return ScriptedReply(tuple(action for reply in replies for action in reply.actions), replies[0].thinking)


def malformed(text: str = '{"action": "call_tool"') -> ScriptedReply:
    """Return a reply whose decision cannot be read; the agent asks the model again."""
    return ScriptedReply((Action(decision=text),))


def cut(reply: str, *, after: int | None = None) -> Step:
    """Return a step that streams the beginning of the reply and then loses the connection.

    `after` is the number of characters that arrive; by default half of the reply.
    """
    return Step(reply=str(reply)[: len(reply) // 2 if after is None else after], error="cut")


def fails(kind: StepError, *, times: int = 1) -> Step:
    """Return a step in which the model does not answer, for this many calls.

    The agent repeats a call that is `overloaded` or has a `timeout`, and makes room if it is `context_too_long`.
    """
    return Step(error=kind, repeat=times)


def _reply(decision: dict[str, object]) -> ScriptedReply:
    return ScriptedReply((Action(decision=_encode(decision)),))


def _write_action(action: Action) -> str:
    code = "" if action.code is None else _channel("code", action.code)
    summary = _channel("summary", action.summary) if action.summary else ""
    return _channel("action", action.decision) + code + summary


def _channel(name: str, text: str) -> str:
    return f"<channel:{name}>{text}</channel:{name}>"


def _encode(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=_to_builtin).decode()


def _to_builtin(value: object) -> object:
    """Return the fields of a Pydantic model; msgspec encodes Structs, dataclasses and plain values itself."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise NotImplementedError(f"a value of type {type(value).__name__} cannot be written as JSON")
