"""Writes the replies of a scripted model, so that tests contain no channel tags."""

import json

THOUGHT = "The next step is clear."


def call(tool_id: str, /, **params: object) -> str:
    """Return a reply that calls the tool with these parameters."""
    return _reply(_action({"action": "call_tool", "tool_call": {"tool_id": tool_id, "params": params}}))


def says(text: str, *, followups: tuple[str, ...] = ()) -> str:
    """Return a reply with this final answer."""
    decision: dict[str, object] = {"action": "complete", "final_answer": text}
    if followups:
        decision["suggested_followups"] = followups
    return _reply(_action(decision))


def several(*replies: str) -> str:
    """Return one reply with the actions of all these replies; the setting `react.multi_action` must allow several."""
    return _reply(*(reply.removeprefix(_thinking()) for reply in replies))


def malformed(text: str = '{"action": "call_tool"') -> str:
    """Return a reply whose decision cannot be read; the agent asks the model again."""
    return _reply(f"<channel:action>{text}</channel:action>")


def _action(decision: dict[str, object]) -> str:
    return f"<channel:action>{json.dumps(decision, ensure_ascii=False)}</channel:action>"


def _reply(*channels: str) -> str:
    return _thinking() + "".join(channels)


def _thinking() -> str:
    return f"<channel:thinking>{THOUGHT}</channel:thinking>"
