"""Hypothesis strategy for whole conversations as the runtime writes them."""

from collections.abc import Iterator, Mapping

from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    Cut,
    Digest,
    Followup,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Notes,
    Pinned,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    Thinking,
    ToolCall,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry

TS = "2026-02-09T02:14:32.676425Z"


class AnyPayload(Mapping[BlobRef, bytes]):
    """A mapping that returns stored text for every possible reference."""

    def __getitem__(self, ref: BlobRef) -> bytes:
        return f"stored {ref.sha256[:6]}\n[TURN x] & more".encode()

    def __iter__(self) -> Iterator[BlobRef]:
        return iter(())

    def __len__(self) -> int:
        return 0


@st.composite
def conversations(draw: st.DrawFn, *, forgetting: bool = True) -> list[Entry]:
    """Draw the entries of 1 to 3 turns with 1 to 4 rounds each.

    With `forgetting`, some rounds hide, prune or summarise earlier entries.
    """
    drafts = [Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))]
    calls = 0
    for n in range(1, draw(st.integers(1, 3)) + 1):
        turn = TurnId(f"turn_{n}")

        def say(*blocks: AnyBlock, turn: TurnId = turn) -> None:
            drafts.extend(Draft(turn, TS, block) for block in blocks)

        say(TurnStarted(n=n), UserPrompt(text=draw(st.text(max_size=12))))
        for r in range(1, draw(st.integers(1, 4)) + 1):
            calls += 1
            say(RoundStarted(round=r), ModelCalled(round=r, model="m", request_sha256="0"))
            say(ModelAnswered(round=r, model="m", stop_reason="end"), Thinking(round=r, text="hm"))
            say(*draw(_call(turn, CallId(f"c{calls}"))))
            if draw(st.integers(0, 4)) == 0:
                say(Followup(message_id=MessageId(f"m{calls}"), text=draw(st.text(max_size=6))))
            if forgetting and draw(st.integers(0, 2)) == 0:
                say(draw(_forgetting_block(turn, calls, len(drafts))))
        say(Completion(text="So it is [[S:1]]."), TurnEnded(reason="completed"))
    return [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]


@st.composite
def _call(draw: st.DrawFn, turn: TurnId, call: CallId) -> list[AnyBlock]:
    tool = draw(st.sampled_from(("react.read", "react.write", "web_tools.web_search")))
    path = draw(st.sampled_from((f"tc:{turn}.{call}.result", "fi:turn_1.files/a.md", f"fi:{turn}.files/b.png")))
    blocks: list[AnyBlock] = [
        Notes(tool_call_id=call, text="looking"),
        ToolCall(tool_id=tool, tool_call_id=call, params='{"path":"a.md"}'),
    ]
    if draw(st.booleans()):
        blocks.append(ResultStatus(tool_call_id=call, text=draw(st.text(max_size=8))))
    digest = Digest(artifact_path=path, mime="text/plain")
    blocks.append(ResultDigest(tool_call_id=call, digest=digest))
    if path.endswith(".png"):
        blocks.append(ResultContent(tool_call_id=call, artifact_path=path, mime="image/png", data=b"png"))
    else:
        text = draw(st.text(max_size=20))
        blocks.append(ResultContent(tool_call_id=call, artifact_path=path, mime="text/plain", text=text))
        blocks.append(SourcesAdded(rows=(SourceRow(sid=1, title="T"),), tool_call_id=call))
    return blocks


@st.composite
def _forgetting_block(draw: st.DrawFn, turn: TurnId, calls: int, tail: int) -> AnyBlock:
    first, last = sorted(draw(st.tuples(st.integers(1, tail), st.integers(1, tail))))
    paths = (
        f"tc:{turn}.c{calls}.result",
        "fi:turn_1.files/a.md",
        "ar:turn_1.assistant.completion",
        f"ar:{turn}.react.model.1",
        "ar:turn_1.user.prompt",
    )
    match draw(st.sampled_from(("hide", "hide", "prune", "summary", "turns", "pin", "pin", "unpin"))):
        case "hide":
            return Hidden(target=draw(st.sampled_from(paths)), replacement="seen.")
        case ("pin" | "unpin") as act:
            return Pinned(target=draw(st.sampled_from(paths)), pinned=act == "pin", tokens=9)
        case "prune":
            return Pruned(cuts=(Cut(first, last, draw(st.sampled_from(("", "[card] was here")))),))
        case "summary":
            return RangeSummary(covered_turn_ids=(), text="sum", first_seq=first, last_seq=last)
        case _:
            return RangeSummary(covered_turn_ids=(TurnId("turn_1"),), text="the first turn")
