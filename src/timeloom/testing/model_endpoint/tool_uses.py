"""Converts decisions in a reply to native tool calls, for clients that offer tools."""

import msgspec

from timeloom.core.policy.read_reply import read_reply
from timeloom.core.stream.decision import CallToolDecision
from timeloom.testing.model_endpoint.dialect import EndpointReply, ToolUse


def with_tool_uses(reply: EndpointReply, offered: frozenset[str], number: int) -> EndpointReply:
    """Return the reply with its decisions as tool calls and text.

    The reply stays unchanged if it has no valid decisions or calls a tool that is not offered. The tool `web.search`
    also matches the offered name `web_search`, because model APIs allow no dots. The number of the model call makes the
    ids of tool calls unique in a conversation.
    """
    if not offered:
        return reply
    parsed = read_reply(reply.text)
    if parsed.faults:
        return reply
    calls = [one for one in parsed.decisions if isinstance(one, CallToolDecision)]
    names = {call.tool_id: _name(call.tool_id, offered) for call in calls}
    if not all(names.values()):
        return reply
    texts = [one.notes if isinstance(one, CallToolDecision) else one.final_answer for one in parsed.decisions]
    uses = (ToolUse(f"call_{number}_{n}", names[call.tool_id], call.params) for n, call in enumerate(calls, 1))
    return msgspec.structs.replace(reply, text="\n\n".join(filter(None, texts)), tool_uses=tuple(uses))


def _name(tool_id: str, offered: frozenset[str]) -> str:
    return next((name for name in (tool_id, tool_id.replace(".", "_")) if name in offered), "")
