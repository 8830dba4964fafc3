"""Checks of replies, errors and cancellation that apply to every model."""

import asyncio
from contextlib import aclosing

import msgspec

from timeloom.platform.tasks import cancel_and_wait
from timeloom.ports.model import FinishEvent, TextPiece
from timeloom.testing.model_contract.fixtures import (
    REQUEST,
    USAGE,
    WAIT_S,
    ModelHarness,
    ReplyScript,
    call_model,
    expect_model_error,
)

FAILURES = ("overloaded", "context_too_long", "timeout")


async def pieces_come_in_order_and_then_the_end(harness: ModelHarness) -> None:
    """Each piece arrives as it was sent, then `FinishEvent` and nothing more."""
    script = ReplyScript(pieces=("one ", "two ", "six "))
    async with harness([script]) as model, asyncio.timeout(WAIT_S), aclosing(model.stream(REQUEST)) as events:
        seen = [event async for event in events]
    assert seen[:-1] == [TextPiece("one "), TextPiece("two "), TextPiece("six ")]
    assert isinstance(seen[-1], FinishEvent)
    assert seen[-1].stop_reason == "end"


async def usage_is_what_the_service_reported(harness: ModelHarness) -> None:
    """Cached tokens are reported separately; the cost is not compared."""
    async with harness([ReplyScript()]) as model:
        finished = (await call_model(model)).finished
    assert finished is not None
    assert finished.usage_reported
    assert msgspec.structs.replace(finished.usage, cost_nano_usd=0) == USAGE


async def the_same_request_gets_the_same_reply(harness: ModelHarness) -> None:
    """A repeated call after a crash gets the same reply."""
    async with harness([ReplyScript()]) as model:
        first, second = await call_model(model), await call_model(model)
    assert first == second


async def any_text_comes_through_unchanged(harness: ModelHarness) -> None:
    """Including characters that have a meaning in the stream format."""
    text = 'é 日本 😀 "\\ \n\r\n\t\x00 <channel:thinking> data: x \u2028\ufeff'
    async with harness([ReplyScript(pieces=(text,))]) as model:
        assert (await call_model(model)).text == text


async def halves_of_a_character_are_joined_and_lone_ones_replaced(harness: ModelHarness) -> None:
    """A service may cut a character into two escapes, and no text with half of one can be stored."""
    halves = (
        (("\ud83d", "\ude00"), "\U0001f600"),
        (("a\ud83d", "\ude00b"), "a\U0001f600b"),
        (("\ud83d", "x", "\ude00"), "\ufffdx\ufffd"),
        (("a\ud83d",), "a\ufffd"),
        (("\ud83d\ude00",), "\U0001f600"),
    )
    for pieces, text in halves:
        async with harness([ReplyScript(pieces=pieces)]) as model:
            result = await call_model(model)
        assert result.text == text, f"{pieces!a} became {result.text!a}"
        assert result.finished is not None


async def half_a_character_before_a_cut_is_replaced(harness: ModelHarness) -> None:
    """The text before the cut is kept, and it can be stored."""
    async with harness([ReplyScript(pieces=("half \ud83d",), ending="cut")]) as model:
        result = await call_model(model)
    assert result.text == "half \ufffd"
    assert result.error is not None
    assert result.error.kind == "cut"


async def a_very_large_piece_comes_through(harness: ModelHarness) -> None:
    """Checked with one megabyte in one piece."""
    text = "0123456789abcdef" * 2**16
    async with harness([ReplyScript(pieces=(text,))]) as model:
        assert (await call_model(model)).text == text


async def a_reply_far_beyond_its_tokens_is_cut(harness: ModelHarness) -> None:
    """A service that ignores `max_output_tokens` must not fill the memory; the text before the bound is kept."""
    request = msgspec.structs.replace(REQUEST, max_output_tokens=1)
    piece = "x" * (request.max_reply_chars // 2)
    async with harness([ReplyScript(pieces=(piece,) * 4)]) as model:
        result = await call_model(model, request)
    assert result.text == piece * 2
    assert result.error is not None
    assert result.error.kind == "cut"


async def an_empty_reply_is_a_reply(harness: ModelHarness) -> None:
    """A reply without text ends normally."""
    async with harness([ReplyScript(pieces=())]) as model:
        result = await call_model(model)
    assert result.text == ""
    assert result.finished is not None


async def a_cut_reply_gives_what_had_come_and_then_says_so(harness: ModelHarness) -> None:
    """The received text is kept and the error has the kind `cut`."""
    async with harness([ReplyScript(pieces=("half a ", "wor"), ending="cut")]) as model:
        result = await call_model(model)
    assert result.text == "half a wor"
    assert result.error is not None
    assert result.error.kind == "cut"


async def a_failure_says_of_which_kind_it_is(harness: ModelHarness) -> None:
    """Checked for the kinds that lead to different next steps."""
    for kind in FAILURES:
        async with harness([ReplyScript(failure=kind)]) as model:
            error = await expect_model_error(model)
        assert (error.kind, error.code) == (kind, f"model_{kind}")


async def a_failed_call_does_not_spoil_the_next(harness: ModelHarness) -> None:
    """Later calls on the same model succeed."""
    async with harness(
        [ReplyScript(failure="overloaded"), ReplyScript(ending="cut"), ReplyScript(pieces=("well",))]
    ) as model:
        await expect_model_error(model)
        await expect_model_error(model, msgspec.structs.replace(REQUEST, number=1))
        assert (await call_model(model, msgspec.structs.replace(REQUEST, number=2))).text == "well"


async def streams_at_the_same_time_do_not_mix(harness: ModelHarness) -> None:
    """Many conversations share one model, so concurrent calls must not mix."""
    texts = tuple(f"{n:04d} " for n in range(200))
    async with harness([ReplyScript(pieces=texts)]) as model:
        results = await asyncio.gather(*(call_model(model) for _ in range(20)))
    assert {result.text for result in results} == {"".join(texts)}


async def a_reply_can_be_given_up(harness: ModelHarness) -> None:
    """A call can be cancelled while the service is silent."""
    async with harness([ReplyScript(ending="silence")]) as model:
        async with asyncio.timeout(WAIT_S):
            task = asyncio.create_task(call_model(model))
            await asyncio.sleep(0)
            await cancel_and_wait(task)
        assert task.cancelled()


async def closing_twice_does_nothing(harness: ModelHarness) -> None:
    """A second close is allowed, so that cleanup code need not track the first."""
    async with harness([ReplyScript()]) as model:
        await call_model(model)
        await model.close()
        await model.close()
