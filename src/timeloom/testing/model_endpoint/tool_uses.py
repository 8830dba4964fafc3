"""Converts decisions in a reply to native tool calls, for clients that offer tools."""

import msgspec

from timeloom.core.policy.read_reply import ParsedReply, find_programs, read_reply
from timeloom.core.render.editions import SECOND_EDITION
from timeloom.core.stream.decision import CallToolDecision, Decision, ExitDecision
from timeloom.core.stream.native_reply import CALL_TOOL, CODE_PARAM, COMPLETE
from timeloom.testing.model_endpoint.dialect import EndpointReply, ToolUse


def with_tool_uses(reply: EndpointReply, offered: frozenset[str], number: int) -> EndpointReply:
    """Return the reply with its decisions as tool calls and text.

    The reply stays unchanged if it has no valid decisions or calls a tool that is not offered. The tool `web.search`
    also matches the offered name `web_search`, because model APIs allow no dots. The number of the model call makes the
    ids of tool calls unique in a conversation. For timeloom, which offers functions of its own, programs become
    parameters, other tools are called by their ids, and followups and summaries are kept.
    """
    if not offered:
        return reply
    # A script may have the raw channels of edition 2, which also reads replies of edition 1.
    parsed = read_reply(reply.text, edition=SECOND_EDITION)
    if parsed.faults:
        return reply
    is_timeloom = offered.issuperset((COMPLETE, CALL_TOOL))
    calls = [_call(one, parsed, offered) for one in parsed.decisions] if is_timeloom else _plain_calls(parsed, offered)
    if calls is None:
        return reply
    uses = tuple(ToolUse(f"call_{number}_{n}", *call) for n, call in enumerate(filter(None, calls), 1))
    texts = [_text(one, is_call=call is not None) for one, call in zip(parsed.decisions, calls, strict=True)]
    return msgspec.structs.replace(reply, text="\n\n".join(filter(None, texts)), tool_uses=uses)


def _plain_calls(parsed: ParsedReply, offered: frozenset[str]) -> list[tuple[str, str] | None] | None:
    """Return the name and the parameters of each call, None for an answer; None if a tool is not offered."""
    calls = [
        (_name(one.tool_id, offered), one.params) if isinstance(one, CallToolDecision) else None
        for one in parsed.decisions
    ]
    return calls if all(call is None or call[0] for call in calls) else None


def _call(decision: Decision, parsed: ParsedReply, offered: frozenset[str]) -> tuple[str, str] | None:
    """Return the name and the arguments of a function of timeloom; None for an answer that is plain text."""
    if not isinstance(decision, CallToolDecision):
        exits = isinstance(decision, ExitDecision)
        if not exits and not parsed.summary and not decision.suggested_followups:
            return None
        arguments = {"final_answer": decision.final_answer, "suggested_followups": decision.suggested_followups}
        outcome = {"outcome": "exit"} if exits else {}
        return COMPLETE, _encode({**arguments, "summary": parsed.summary, **outcome})
    params = msgspec.json.decode(decision.params, type=dict[str, msgspec.Raw])
    if parsed.code is not None and find_programs([decision], {}):
        params[CODE_PARAM] = msgspec.Raw(msgspec.json.encode(parsed.code))
    if name := _name(decision.tool_id, offered):
        return name, _encode(params)
    return CALL_TOOL, _encode({"tool_id": decision.tool_id, "params": params})


def _text(decision: Decision, *, is_call: bool) -> str:
    return decision.notes if is_call or isinstance(decision, CallToolDecision) else decision.final_answer


def _name(tool_id: str, offered: frozenset[str]) -> str:
    return next((name for name in (tool_id, tool_id.replace(".", "_")) if name in offered), "")


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
