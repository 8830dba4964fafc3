"""Replies of a scripted model in the channel format, and steps of its script."""

import json


def calls(tool_id: str, notes: str = "", thinking: str = "", **params: object) -> str:
    """Return a reply that calls a tool."""
    call = {"tool_id": tool_id, "params": params}
    decision = decision_reply({"action": "call_tool", "notes": notes, "tool_call": call})
    return thinking_text(thinking) + decision if thinking else decision


def answers(text: str = "Done.", *followups: str, notes: str = "", summary: str = "") -> str:
    """Return a reply that answers, with suggested followups and a summary of the turn if there are any."""
    decision: dict[str, object] = {"action": "complete", "notes": notes, "final_answer": text}
    if followups:
        decision["suggested_followups"] = followups
    return decision_reply(decision) + (f"<channel:summary>{summary}</channel:summary>" if summary else "")


def decision_reply(decision: dict[str, object]) -> str:
    """Return a reply that contains only this decision."""
    return f"<channel:ReactDecisionOutV2>{json.dumps(decision, ensure_ascii=False)}</channel:ReactDecisionOutV2>"


def thinking_text(text: str) -> str:
    """Return the part of a reply that comes before a decision."""
    return f"<channel:thinking>{text}</channel:thinking>\n"


def slow_reply(text: str, *, delay_ms: int, chunk: int = 8) -> dict[str, object]:
    """Return a step that sends the reply in chunks of so many characters, each after a delay."""
    return {"reply": text, "chunk": chunk, "delay_ms": delay_ms}
