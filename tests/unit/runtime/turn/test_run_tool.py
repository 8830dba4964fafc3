"""A call always comes to its end: in time, late, interrupted or broken, with one receipt and without a raise."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.timeline import CALL, TURN, BlockTimeline, discard_output, make_context
from timeloom.core.blocks import (
    AnyBlock,
    CompactionRequested,
    Notice,
    Pinned,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    ToolCall,
    UserPrompt,
)
from timeloom.core.ids import MessageId
from timeloom.core.payload import BlobRef, ref_of
from timeloom.ports.tool import Artifact, Effect, Emit, Outcome, Tool, ToolContext, ToolSpec
from timeloom.runtime.turn.run_tool import (
    KEPT_OUTPUT_CHARS,
    MAX_KEPT_CHANNELS,
    RunSettings,
    count_stray_calls,
    run_call,
)
from timeloom.tools import ToolRegistry, WritePath, tool

PATH = f"fi:{TURN}.files/a.md"


class Doing:
    """A tool with configurable behaviour, also behaviour that the port does not allow."""

    def __init__(
        self, work: Callable[[ToolContext], Awaitable[object]], deadline_s: float = 60, effect: Effect = "pure"
    ) -> None:
        self.spec = ToolSpec(tool_id="x.do", purpose="Does.", deadline_s=deadline_s, effect=effect)
        self._work = work

    async def call(self, params: str, context: ToolContext) -> Outcome:
        return await self._work(context)  # pyright: ignore[reportReturnType]


def show(text: str, _mime: str, _path: str) -> Shown:
    return Shown("whole", len(text))


def params(**given: object) -> ToolCall:
    return ToolCall(tool_id="x.do", tool_call_id=CALL, params=json.dumps(given))


async def closed(
    what: Tool | None,
    call: ToolCall | None = None,
    *,
    timeline: BlockTimeline | None = None,
    emit: Emit = discard_output,
    interrupt: asyncio.Event | None = None,
    grace_s: float = 0.02,
) -> Sequence[AnyBlock]:
    """The blocks of the call, after it was seen that they close it with one receipt or one per artifact."""
    timeline, call = timeline or BlockTimeline(), call or params()
    timeline.append(call, turn=TURN)
    settings = RunSettings(show=show, interrupt=interrupt, grace_s=grace_s)
    blocks = await run_call(what, call, make_context(timeline, emit), settings)
    timeline.append(*blocks, turn=TURN)
    known = timeline.views.calls.get(TURN, CALL)
    assert known is not None and not timeline.views.calls.open
    assert len([block for block in blocks if isinstance(block, ResultStatus)]) <= 1
    return blocks


def run(what: Tool | None, call: ToolCall | None = None, timeline: BlockTimeline | None = None) -> Sequence[AnyBlock]:
    return asyncio.run(closed(what, call, timeline=timeline))


def error_in(blocks: Sequence[AnyBlock]) -> tuple[str, str]:
    [status] = [block for block in blocks if isinstance(block, ResultStatus)]
    assert status.error is not None
    return status.error.code, status.error.message


async def done(_: ToolContext) -> Outcome:
    return Outcome(status="done")


async def for_ever(_: ToolContext) -> None:
    await asyncio.Event().wait()


@tool("x.do", effect="idempotent")
async def write_down(path: Annotated[str, WritePath], text: str) -> Outcome:
    """Writes it down."""
    return Outcome(artifacts=(Artifact(path="fi:" + path.replace("/", ".", 1), mime="text/plain", text=text),))


# --- calls that come to their end ------------------------------------------------------------------------------


def test_a_call_is_closed_by_what_its_tool_left() -> None:
    [status] = run(Doing(done))
    assert isinstance(status, ResultStatus)
    assert (status.text, status.shown) == ("done", Shown("whole", 4))


def test_references_and_paths_are_bound_before_the_call() -> None:
    timeline = BlockTimeline(UserPrompt(text="hello"))
    call = params(path="turn_1/files/a.md", text="ref:ar:turn_1.user.prompt")
    notice, digest, content = run(write_down, call, timeline)
    assert isinstance(notice, Notice)
    assert notice.code == "protocol_violation.path_rewritten"
    assert isinstance(digest, ResultDigest)
    assert isinstance(content, ResultContent)
    assert (content.artifact_path, content.text) == (PATH, "hello")


def test_a_notice_of_a_changed_path_stays_when_the_tool_fails() -> None:
    notices = [block for block in run(write_down, params(path="turn_1/files/a.md")) if isinstance(block, Notice)]
    assert [notice.code for notice in notices] == ["protocol_violation.path_rewritten", "tool_params_invalid"]


def test_a_reference_to_nothing_visible_is_told_and_the_tool_is_not_called() -> None:
    ran: list[bool] = []

    async def note(_: ToolContext) -> Outcome:
        ran.append(True)
        return Outcome()

    notice, status = run(Doing(note), params(text="ref:fi:turn_1.files/gone.md"))
    assert isinstance(notice, Notice)
    assert notice.code == "protocol_violation.param_ref_not_visible" == error_in([status])[0]
    assert not ran


def test_parameters_that_are_stored_are_loaded() -> None:
    timeline = BlockTimeline()
    call = ToolCall(tool_id="x.do", tool_call_id=CALL, params=timeline.store(b'{"path":"a.md","text":"b"}'))
    assert isinstance(run(write_down, call, timeline)[-1], ResultContent)
    lost = ToolCall(tool_id="x.do", tool_call_id=CALL, params=ref_of(b"{}"))
    assert error_in(run(write_down, lost))[0] == "blob_missing"


def test_an_unknown_tool_is_answered() -> None:
    assert error_in(run(None))[0] == "unknown_tool"
    near = ToolRegistry([write_down]).resolve("x.dot")
    assert error_in(run(near)) == ("unknown_tool", "there is no tool 'x.dot'; the nearest are x.do")


def test_what_a_tool_says_while_it_runs_passes_through_and_nothing_afterwards() -> None:
    said: list[tuple[str, str]] = []
    kept: list[Emit] = []

    async def talk(context: ToolContext) -> Outcome:
        context.emit("progress", "half")
        kept.append(context.emit)
        return Outcome()

    async def scenario() -> None:
        await closed(Doing(talk), emit=lambda channel, text: said.append((channel, text)))
        kept[0]("progress", "too late")

    asyncio.run(scenario())
    assert said == [("progress", "half")]


# --- calls that break ------------------------------------------------------------------------------------------


async def _raise(_: ToolContext) -> Outcome:
    raise ValueError("no such thing in /home/me/secret")


async def _exit(_: ToolContext) -> Outcome:
    sys.exit(3)


async def _cancel(_: ToolContext) -> Outcome:
    raise asyncio.CancelledError


async def _text(_: ToolContext) -> str:
    return "not an outcome"


async def _ill_formed(_: ToolContext) -> Outcome:
    return Outcome(artifacts=(3,))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        (_raise, "tool_call_error", "ValueError: no such thing in <a path of this machine>"),
        (_exit, "tool_call_error", "the tool tried to end the process"),
        (_cancel, "tool_call_error", "the tool cancelled its own call"),
        (_text, "tool_result_error", "the tool returned a str; expected an Outcome"),
        (_ill_formed, "tool_result_error", "the tool ran, and what it left cannot be put on the timeline"),
    ],
)
def test_a_tool_that_breaks_its_promises_is_a_result(
    work: Callable[[ToolContext], Awaitable[object]], code: str, said: str
) -> None:
    blocks = run(Doing(work))
    assert error_in(blocks) == (code, said)
    assert [type(block).__name__ for block in blocks] == ["Notice", "ResultStatus"]


# --- calls that are stopped ------------------------------------------------------------------------------------


def test_a_late_tool_is_cancelled_and_told() -> None:
    ended: list[str] = []

    async def slow(context: ToolContext) -> Outcome:
        try:
            await for_ever(context)
        finally:
            ended.append("cleaned up")
        return Outcome()

    code, message = error_in(run(Doing(slow, deadline_s=0.01)))
    assert (code, message) == ("tool_timeout", "x.do did not finish within 0.01 s and was cancelled")
    assert ended == ["cleaned up"]


def test_what_a_late_tool_had_done_is_not_undone_and_that_is_said() -> None:
    assert "stays done" in error_in(run(Doing(for_ever, 0.01, "irreversible")))[1]


def test_a_tool_that_fails_while_it_is_cancelled_is_late_all_the_same() -> None:
    async def spiteful(context: ToolContext) -> Outcome:
        try:
            await for_ever(context)
        finally:
            raise ValueError

    assert error_in(run(Doing(spiteful, deadline_s=0.01)))[0] == "tool_timeout"


def test_a_tool_that_does_not_stop_is_reported_and_let_go() -> None:
    async def scenario() -> None:
        release = asyncio.Event()

        async def stubborn(_: ToolContext) -> Outcome:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return Outcome()

        blocks = await closed(Doing(stubborn, deadline_s=0.01))
        assert error_in(blocks)[0] == "tool_timeout"
        assert "may be running still" in error_in(blocks)[1]
        assert count_stray_calls() == 1
        release.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert count_stray_calls() == 0

    asyncio.run(scenario())


def test_a_steer_stops_the_running_call() -> None:
    async def scenario() -> None:
        interrupt, began = asyncio.Event(), asyncio.Event()

        async def slow(context: ToolContext) -> None:
            began.set()
            await for_ever(context)

        running = asyncio.create_task(closed(Doing(slow), interrupt=interrupt))
        await began.wait()
        interrupt.set()
        assert error_in(await running) == ("tool_interrupted", "x.do was stopped before it had finished")

    asyncio.run(scenario())


async def stopped(work: Callable[[ToolContext], Awaitable[object]]) -> Sequence[AnyBlock]:
    """The blocks of a call that is interrupted once it has said something."""
    interrupt = asyncio.Event()
    return await closed(Doing(work), interrupt=interrupt, emit=lambda _channel, _text: interrupt.set())


def test_what_a_tool_had_said_is_kept_when_it_is_stopped() -> None:
    async def talk(context: ToolContext) -> None:
        for channel, text in (("stdout", "one\n"), ("stderr", "hm"), ("stdout", "two\n"), ("blank", "\n")):
            context.emit(channel, text)
        await for_ever(context)

    notice, status, content = asyncio.run(stopped(talk))
    assert isinstance(notice, Notice)
    assert error_in([status])[0] == notice.code == "tool_interrupted"
    assert isinstance(content, ResultContent)
    assert (content.artifact_path, content.mime) == (f"tc:{TURN}.{CALL}.result", "text/plain")
    assert content.text == "stdout:\none\ntwo\nstderr:\nhm\n"


def test_what_a_late_tool_had_said_is_kept() -> None:
    async def talk(context: ToolContext) -> None:
        context.emit("progress", "half")
        await for_ever(context)

    *_, status, content = run(Doing(talk, deadline_s=0.05))
    assert error_in([status])[0] == "tool_timeout"
    assert isinstance(content, ResultContent)
    assert content.text == "progress:\nhalf\n"


def test_of_what_a_stopped_tool_had_said_the_end_is_kept() -> None:
    async def talk(context: ToolContext) -> None:
        for piece in ("a" * KEPT_OUTPUT_CHARS, "b" * KEPT_OUTPUT_CHARS, "c"):
            context.emit("x" * 100, piece)
        for n in range(2 * MAX_KEPT_CHANNELS):
            context.emit(str(n), "z")
        await for_ever(context)

    content = asyncio.run(stopped(talk))[-1]
    assert isinstance(content, ResultContent)
    head, kept, *others = str(content.text).splitlines()
    assert head == f"{'x' * 40} (the last {KEPT_OUTPUT_CHARS} of {2 * KEPT_OUTPUT_CHARS + 1} characters):"
    assert kept == "b" * (KEPT_OUTPUT_CHARS - 1) + "c"
    assert others == [line for n in range(MAX_KEPT_CHANNELS - 1) for line in (f"{n}:", "z")]


def test_a_call_that_is_not_interrupted_is_not_disturbed() -> None:
    blocks = asyncio.run(closed(Doing(done), interrupt=asyncio.Event()))
    assert [type(block) for block in blocks] == [ResultStatus]


def test_a_call_after_the_steer_does_not_begin() -> None:
    async def scenario() -> None:
        interrupt = asyncio.Event()
        interrupt.set()
        blocks = await closed(Doing(_raise), interrupt=interrupt)
        assert error_in(blocks) == ("tool_interrupted", "x.do was stopped before it began")

    asyncio.run(scenario())


def test_whoever_is_cancelled_takes_the_tool_along() -> None:
    async def scenario() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def slow(context: ToolContext) -> None:
            began.set()
            try:
                await for_ever(context)
            finally:
                ended.set()

        running = asyncio.create_task(closed(Doing(slow)))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended.is_set()

    asyncio.run(scenario())


# --- stored texts ----------------------------------------------------------------------------------------------


def showing(*refs: BlobRef) -> Doing:
    async def work(_: ToolContext) -> Outcome:
        paths = [f"fi:{TURN}.files/{n}" for n in range(len(refs))]
        pairs = zip(paths, refs, strict=True)
        return Outcome(artifacts=tuple(Artifact(path=path, mime="text/plain", text=ref) for path, ref in pairs))

    return Doing(work)


def test_stored_texts_are_read_to_decide_how_they_are_shown() -> None:
    timeline = BlockTimeline()
    stored, lost = timeline.store(b"stored"), ref_of(b"lost")
    large = msgspec.structs.replace(ref_of(b"large"), size_bytes=10**9)
    blocks = run(showing(stored, stored, lost, large), timeline=timeline)
    contents = [block for block in blocks if isinstance(block, ResultContent)]
    assert [content.text for content in contents] == [stored, stored, lost, large]
    assert [content.shown.how for content in contents if content.shown] == ["whole", "whole", "stub", "stub"]


# --- for anything that a tool may do ---------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats() | st.just("\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(("ok", "error", "ret", "x")), inner),
    max_leaves=8,
)


@given(values, st.booleans())
def test_whatever_a_function_returns_or_is_given_closes_its_call(value: object, broken: bool) -> None:
    @tool("x.do")
    async def give(x: str = "") -> object:
        """Gives."""
        return value if x else None

    call = params(x=3, y=4) if broken else params(x="y")
    blocks = run(give, call)
    assert any(isinstance(block, ResultStatus | ResultDigest) for block in blocks)


# --- pins and requests of own tools -----------------------------------------------------------------------------


def test_a_pin_of_a_tool_has_the_tokens_of_what_it_keeps_and_not_those_that_the_tool_states() -> None:
    prompt = f"ar:{TURN}.user.prompt"

    async def pin(_: ToolContext) -> Outcome:
        targets = (prompt, PATH, "ar:turn_9.user.prompt")
        pins = [Pinned(target=target, tokens=1, author="user", text="why " * 9_000) for target in targets]
        text = Artifact(path=PATH, mime="text/plain", text="word " * 400)
        return Outcome(artifacts=(text,), blocks=(*pins, Pinned(target=prompt, pinned=False, tokens=10**6)))

    timeline = BlockTimeline()
    timeline.append(UserPrompt(text="word " * 4_000), turn=TURN)
    blocks = run(Doing(pin), timeline=timeline)
    asked, own, nothing, ended = [block for block in blocks if isinstance(block, Pinned)]
    assert asked.tokens > 3_000 > own.tokens > 300 > nothing.tokens == ended.tokens == 0
    assert (asked.author, len(asked.text)) == ("x.do", 2_000)
    assert timeline.views.visible.pinned_tokens == own.tokens


def test_a_pin_of_a_tool_beyond_a_tenth_of_the_window_is_left_out_with_a_notice() -> None:
    small, large = f"ar:{TURN}.user.prompt", PATH

    async def pin(_: ToolContext) -> Outcome:
        text = Artifact(path=large, mime="text/plain", text="word " * 30_000)
        return Outcome(artifacts=(text,), blocks=(Pinned(target=large), Pinned(target=small), Pinned(target=large)))

    timeline = BlockTimeline()
    timeline.append(UserPrompt(text="word " * 400), turn=TURN)
    blocks = run(Doing(pin), timeline=timeline)
    assert [block.target for block in blocks if isinstance(block, Pinned)] == [small]
    first, second = [block for block in blocks if isinstance(block, Notice)]
    assert (first.code, first.tool_call_id) == (second.code, CALL) == ("pins_full", CALL)
    assert "pins may have 20000 together, and 20000 are free" in first.text
    assert [*timeline.views.visible.pins] == [small]


def test_a_compaction_that_a_tool_requests_has_the_bounds_of_a_persons_request() -> None:
    async def request(_: ToolContext) -> Outcome:
        asked = CompactionRequested(message_id=MessageId("of-a-person"), text="x" * 10**6, keep=10**9)
        return Outcome(blocks=(asked, asked))

    timeline = BlockTimeline()
    *_, first, second = run(Doing(request), timeline=timeline)
    assert (
        first == second == CompactionRequested(message_id=MessageId(CALL), text="x" * 2_000, keep=1_000, author="x.do")
    )
    assert len(timeline.views.compactions.pending) == 1
