"""Decisions as the services write them: tool calls and an answer, for clients that offer tools."""

import msgspec

from timeloom.core.policy.read_reply import read_reply
from timeloom.core.stream.decision import CallTool
from timeloom.testing.model_endpoint.dialect import ToolUse, Written


def as_services_write(written: Written, offered: frozenset[str], number: int) -> Written:
    """The reply with its decisions as tool calls and text; as it is where it has none or a tool is not offered.

    A tool `web.search` is also the one that a client calls `web_search`, since services allow no dots. The number of
    the call to the model keeps the ids of a conversation's tool calls apart.
    """
    if not offered:
        return written
    reply = read_reply(written.text)
    if reply.faults:
        return written
    calls = [one for one in reply.decisions if isinstance(one, CallTool)]
    names = {call.tool_id: _name(call.tool_id, offered) for call in calls}
    if not all(names.values()):
        return written
    said = [one.notes if isinstance(one, CallTool) else one.final_answer for one in reply.decisions]
    uses = (ToolUse(f"call_{number}_{n}", names[call.tool_id], call.params) for n, call in enumerate(calls, 1))
    return msgspec.structs.replace(written, text="\n\n".join(filter(None, said)), tool_uses=tuple(uses))


def _name(tool_id: str, offered: frozenset[str]) -> str:
    return next((name for name in (tool_id, tool_id.replace(".", "_")) if name in offered), "")
