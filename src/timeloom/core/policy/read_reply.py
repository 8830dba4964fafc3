"""Parses a model's reply into thinking, decisions, code and a summary, with the problems found in it."""

from typing import Final

import msgspec

from timeloom.core.stream.channels import DECISION, ChannelParser, Closed, Delta, Violation, body, coalesce
from timeloom.core.stream.decision import CallTool, Decision, DecisionError, parse_decision

EXEC_PREFIX: Final = "exec_tools."
"""Prefix of the tools that run the program in the code channel."""


class Remark(msgspec.Struct, frozen=True):
    """A problem in a reply, reported to the model: a registered code and a sentence."""

    code: str
    text: str


class Reply(msgspec.Struct, frozen=True):
    """The parts of a reply. A reply with `faults` cannot be executed; `remarks` are informational."""

    thinking: str = ""
    decisions: tuple[Decision, ...] = ()
    code: str | None = None
    summary: str = ""
    faults: tuple[Remark, ...] = ()
    remarks: tuple[Remark, ...] = ()


def read_reply(text: str) -> Reply:
    """Return the parts of a complete reply."""
    parser = ChannelParser()
    events = coalesce([*parser.feed(text), *parser.close()])
    texts: dict[tuple[str, int], str] = {}
    for event in events:
        if isinstance(event, Delta):
            texts[event.channel, event.index] = event.text
    cut = {(event.channel, event.index) for event in events if isinstance(event, Closed) and event.cut}
    remarks = tuple(Remark(event.code, event.message) for event in events if isinstance(event, Violation))
    decisions, faults = _decisions(texts, cut)
    code = _joined(texts, "code")
    return Reply(
        thinking=_joined(texts, "thinking") or "",
        decisions=decisions,
        code=code,
        summary=_joined(texts, "summary") or "",
        faults=(*faults, *(_code_fault(decisions, code) if not faults else ())),
        remarks=remarks,
    )


def _decisions(
    texts: dict[tuple[str, int], str], cut: set[tuple[str, int]]
) -> tuple[tuple[Decision, ...], tuple[Remark, ...]]:
    found: list[Decision] = []
    faults: list[Remark] = []
    written = [(key, text) for key, text in texts.items() if key[0] == DECISION]
    for key, text in written:
        try:
            found.append(parse_decision(text))
        except DecisionError as error:
            ending = " The reply ended before the decision did." if key in cut else ""
            faults.append(Remark(error.code, f"{error}{ending}"))
    if not written:
        faults.append(Remark("protocol_violation.decision_missing", _MISSING))
    return tuple(found), tuple(faults)


_MISSING: Final = f"the reply has no decision; write one JSON object in the channel {DECISION}, between its two tags"


def _code_fault(decisions: tuple[Decision, ...], code: str | None) -> tuple[Remark, ...]:
    runs = [one for one in decisions if isinstance(one, CallTool) and one.tool_id.startswith(EXEC_PREFIX)]
    if runs and code is None:
        return (
            Remark("protocol_violation.code_missing", "the call runs code, and there is no code channel; write one"),
        )
    if code is not None and not runs:
        return (
            Remark(
                "protocol_violation.code_without_exec",
                "code stands in the code channel, and no call runs it; leave it out",
            ),
        )
    return ()


def _joined(texts: dict[tuple[str, int], str], channel: str) -> str | None:
    parts = [body(text) for (name, _), text in texts.items() if name == channel]
    return "\n\n".join(parts) if parts else None
