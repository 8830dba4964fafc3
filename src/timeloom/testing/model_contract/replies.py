"""Checks of replies, errors and cancellation that apply to every model."""

import asyncio
from contextlib import aclosing

import msgspec

from timeloom.ports.model import Finished, TextPiece
from timeloom.testing.model_contract.fixtures import REQUEST, USAGE, WAIT_S, Play, Stage, failed, outcome

FAILURES = ("overloaded", "context_too_long", "timeout")


async def pieces_come_in_order_and_then_the_end(stage: Stage) -> None:
    """Each piece arrives as it was sent, then `FinishEvent` and nothing more."""
    play = Play(pieces=("one ", "two ", "six "))
    async with stage([play]) as model, asyncio.timeout(WAIT_S), aclosing(model.stream(REQUEST)) as events:
        seen = [event async for event in events]
    assert seen[:-1] == [TextPiece("one "), TextPiece("two "), TextPiece("six ")]
    assert isinstance(seen[-1], Finished)
    assert seen[-1].stop_reason == "end"


async def usage_is_what_the_service_reported(stage: Stage) -> None:
    """Cached tokens are reported separately; the cost is not compared."""
    async with stage([Play()]) as model:
        finished = (await outcome(model)).finished
    assert finished is not None
    assert finished.usage_reported
    assert msgspec.structs.replace(finished.usage, cost_nano_usd=0) == USAGE


async def the_same_request_gets_the_same_reply(stage: Stage) -> None:
    """A repeated call after a crash gets the same reply."""
    async with stage([Play()]) as model:
        first, second = await outcome(model), await outcome(model)
    assert first == second


async def any_text_comes_through_unchanged(stage: Stage) -> None:
    """Including characters that have a meaning in the stream format."""
    text = 'é 日本 😀 "\\ \n\r\n\t\x00 <channel:thinking> data: x \u2028\ufeff'
    async with stage([Play(pieces=(text,))]) as model:
        assert (await outcome(model)).text == text


async def a_very_large_piece_comes_through(stage: Stage) -> None:
    """Checked with one megabyte in one piece."""
    text = "0123456789abcdef" * 2**16
    async with stage([Play(pieces=(text,))]) as model:
        assert (await outcome(model)).text == text


async def an_empty_reply_is_a_reply(stage: Stage) -> None:
    """A reply without text ends normally."""
    async with stage([Play(pieces=())]) as model:
        result = await outcome(model)
    assert result.text == ""
    assert result.finished is not None


async def a_cut_reply_gives_what_had_come_and_then_says_so(stage: Stage) -> None:
    """The received text is kept and the error has the kind `cut`."""
    async with stage([Play(pieces=("half a ", "wor"), ending="cut")]) as model:
        result = await outcome(model)
    assert result.text == "half a wor"
    assert result.error is not None
    assert result.error.kind == "cut"


async def a_failure_says_of_which_kind_it_is(stage: Stage) -> None:
    """Checked for the kinds that lead to different next steps."""
    for kind in FAILURES:
        async with stage([Play(failure=kind)]) as model:
            error = await failed(model)
        assert (error.kind, error.code) == (kind, f"model_{kind}")


async def a_failed_call_does_not_spoil_the_next(stage: Stage) -> None:
    """Later calls on the same model succeed."""
    async with stage([Play(failure="overloaded"), Play(ending="cut"), Play(pieces=("well",))]) as model:
        await failed(model)
        await failed(model, msgspec.structs.replace(REQUEST, number=1))
        assert (await outcome(model, msgspec.structs.replace(REQUEST, number=2))).text == "well"


async def streams_at_the_same_time_do_not_mix(stage: Stage) -> None:
    """Many conversations share one model, so concurrent calls must not mix."""
    texts = tuple(f"{n:04d} " for n in range(200))
    async with stage([Play(pieces=texts)]) as model:
        results = await asyncio.gather(*(outcome(model) for _ in range(20)))
    assert {result.text for result in results} == {"".join(texts)}


async def a_reply_can_be_given_up(stage: Stage) -> None:
    """A call can be cancelled while the service is silent."""
    async with stage([Play(ending="silence")]) as model:
        async with asyncio.timeout(WAIT_S):
            task = asyncio.create_task(outcome(model))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        assert task.cancelled()


async def closing_twice_does_nothing(stage: Stage) -> None:
    """A second close is allowed, so that cleanup code need not track the first."""
    async with stage([Play()]) as model:
        await outcome(model)
        await model.close()
        await model.close()
