"""Checks how models that call a service over HTTP handle its responses."""

import asyncio
from contextlib import aclosing
from email.utils import formatdate

import msgspec

from timeloom.ports.model import ErrorKind, ModelError, TextPiece
from timeloom.providers.settings import Timeouts
from timeloom.testing.fake_service import STREAM_HEADERS, FakeResponse, Repeat, Stall
from timeloom.testing.model_contract.fixtures import (
    KEY,
    REQUEST,
    SHORT_S,
    WAIT_S,
    HttpHarness,
    ReplyScript,
    call_model,
    expect_model_error,
)

JSON = (("content-type", "application/json"),)
STATUSES: tuple[tuple[int, ErrorKind], ...] = (
    (400, "invalid"),
    (401, "unauthorized"),
    (403, "unauthorized"),
    (404, "invalid"),
    (408, "timeout"),
    (413, "context_too_long"),
    (429, "rate_limited"),
    (500, "overloaded"),
    (502, "overloaded"),
    (503, "overloaded"),
    (504, "timeout"),
    (529, "overloaded"),
)


async def however_the_bytes_are_cut_the_reply_is_the_same(harness: HttpHarness) -> None:
    """Chunks may end in the middle of a character, a line end or a frame."""
    script = ReplyScript(pieces=("é 日本 ", "😀 end"))
    whole = b"".join(harness.frames(script))
    for size in (1, 2, 3, 7, len(whole)):
        parts = [whole[at : at + size] for at in range(0, len(whole), size)]
        for text in (parts, [part.replace(b"\n", b"\r\n") for part in parts]):
            async with harness.open_with_service(FakeResponse(parts=text)) as (model, _):
                assert (await call_model(model)).text == "é 日本 😀 end"


async def comments_and_unknown_events_are_passed_over(harness: HttpHarness) -> None:
    """Services add events without notice."""
    frames = harness.frames(ReplyScript(pieces=("a", "b")))
    odd = b': keep-alive\n\nevent: new_kind\ndata: {"type":"new_kind","x":[{}]}\n\nid: 7\nretry: 10\nnonsense\n\n'
    async with harness.open_with_service(FakeResponse(parts=[odd.join([b"", *frames])])) as (model, _):
        assert (await call_model(model)).text == "ab"


async def thinking_is_no_part_of_the_reply(harness: HttpHarness) -> None:
    """Thinking arrives as `ThinkingPiece` events."""
    first, *rest = harness.frames(ReplyScript(pieces=("said",)))
    async with harness.open_with_service(
        FakeResponse(parts=[first, harness.dialect.thinking_frame("thought"), *rest])
    ) as (model, _):
        result = await call_model(model)
    assert (result.text, result.thinking) == ("said", "thought")


async def halves_of_a_character_in_thinking_are_joined(harness: HttpHarness) -> None:
    """Text and thinking are joined apart, and a half at the end of the thinking is replaced."""
    first, *rest = harness.frames(ReplyScript(pieces=("said\ud83d", "\ude00")))
    thoughts = [harness.dialect.thinking_frame(piece) for piece in ("a\ud83d", "\ude00b\ud83d")]
    async with harness.open_with_service(FakeResponse(parts=[first, *thoughts, *rest])) as (model, _):
        result = await call_model(model)
    assert (result.text, result.thinking) == ("said\U0001f600", "a\U0001f600b\ufffd")


async def a_rate_limit_says_how_long_to_wait(harness: HttpHarness) -> None:
    """The wait can be given in seconds, in milliseconds or as a date."""
    status, body = harness.dialect.error_response("rate_limited")
    asked = (
        ("retry-after", "7"),
        ("retry-after", "2.5"),
        ("retry-after-ms", "1500"),
        ("retry-after", formatdate(0, usegmt=True)),
    )
    for header, wait_s in zip(asked, (7.0, 2.5, 1.5, 0.0), strict=True):
        async with harness.open_with_service(FakeResponse(status=status, headers=(*JSON, header), parts=(body,))) as (
            model,
            _,
        ):
            error = await expect_model_error(model)
        assert (error.kind, error.retry_after_s, error.retryable) == ("rate_limited", wait_s, True)


async def each_status_has_its_kind(harness: HttpHarness) -> None:
    """The error kind does not depend on the body."""
    for status, kind in STATUSES:
        for body in (b"", b"[", b'{"error": {"message": "no"}}'):
            async with harness.open_with_service(
                FakeResponse(status=status, headers=JSON, parts=(body,) if body else ())
            ) as (model, _):
                error = await expect_model_error(model)
            assert error.kind == kind, f"{status} with {body!r} became {error.kind}"
            assert str(status) in str(error)


async def a_service_that_is_not_there_is_unreachable(harness: HttpHarness) -> None:
    """No server listens on the port."""
    async with harness.open_with_service(FakeResponse()) as (_, service):
        url = service.url
    model = harness.open_model(url, KEY, Timeouts())
    assert (await expect_model_error(model)).kind == "unreachable"
    await model.close()


async def a_service_that_hangs_up_at_once_is_unreachable(harness: HttpHarness) -> None:
    """A restarting service closes the connection before the status."""
    async with harness.open_with_service(FakeResponse(ending="silent")) as (model, _):
        assert (await expect_model_error(model)).kind == "unreachable"


async def a_slow_first_byte_is_a_timeout(harness: HttpHarness) -> None:
    """Holds if the status is missing, and if nothing follows the status."""
    for answer in (FakeResponse(ending="mute"), FakeResponse(parts=(Stall(),))):
        async with harness.open_with_service(answer, timeouts=Timeouts(first_byte_s=SHORT_S)) as (model, _):
            assert (await expect_model_error(model)).kind == "timeout"


async def silence_in_the_middle_is_a_timeout(harness: HttpHarness) -> None:
    """The text received before the silence is kept."""
    parts = [*harness.frames(ReplyScript(pieces=("begun",), ending="cut")), Stall()]
    async with harness.open_with_service(FakeResponse(parts=parts), timeouts=Timeouts(between_bytes_s=SHORT_S)) as (
        model,
        _,
    ):
        result = await call_model(model)
    assert result.text == "begun"
    assert result.error is not None
    assert result.error.kind == "timeout"


async def comments_do_not_keep_a_silent_reply_alive(harness: HttpHarness) -> None:
    """Holds before the first event and after it; neither comments nor half an event are content."""
    begun = harness.frames(ReplyScript(pieces=("begun",), ending="cut"))
    timeouts = Timeouts(first_byte_s=SHORT_S, between_bytes_s=SHORT_S)
    for noise in (b": keep-alive\n\n", b"x"):
        for parts, text in (([], ""), (begun, "begun")):
            response = FakeResponse(parts=[*parts, Repeat(noise, SHORT_S / 10)])
            async with harness.open_with_service(response, timeouts=timeouts) as (model, _):
                result = await call_model(model)
            assert result.text == text
            assert result.error is not None
            assert result.error.kind == "timeout"


async def a_reply_that_does_not_end_in_time_is_a_timeout(harness: HttpHarness) -> None:
    """`call_s` limits the whole call, however regularly content arrives, and also the wait for the status."""
    first, *_ = harness.frames(ReplyScript(pieces=()))
    drip = FakeResponse(parts=[first, Repeat(harness.dialect.text_frame("x"), SHORT_S / 10)])
    for response in (drip, FakeResponse(ending="mute")):
        async with harness.open_with_service(response, timeouts=Timeouts(call_s=SHORT_S)) as (model, _):
            result = await call_model(model)
        assert set(result.text) <= {"x"}
        assert result.error is not None
        assert result.error.kind == "timeout"


async def a_stream_without_content_is_bounded_by_the_tokens_of_its_reply(harness: HttpHarness) -> None:
    """The bytes of a response are bounded too, not only its text."""
    request = msgspec.structs.replace(REQUEST, max_output_tokens=1)
    async with harness.open_with_service(FakeResponse(parts=[Repeat(b": " + b"x" * 2**16 + b"\n\n")])) as (model, _):
        assert (await expect_model_error(model, request)).kind == "cut"


async def a_slow_reader_loses_nothing_of_a_cut_reply(harness: HttpHarness) -> None:
    """Text received before the cut is kept until it is read."""
    parts = harness.frames(ReplyScript(pieces=("one ", "two ", "six"), ending="cut"))
    seen = ""
    async with (
        harness.open_with_service(FakeResponse(parts=parts, ending="cut")) as (model, _),
        aclosing(model.stream(REQUEST)) as events,
    ):
        try:
            async for event in events:
                seen += event.text if isinstance(event, TextPiece) else ""
                await asyncio.sleep(SHORT_S)
        except ModelError as error:
            assert error.kind == "cut"
    assert seen == "one two six"


async def what_is_not_json_is_refused(harness: HttpHarness) -> None:
    """Holds for half an object, no object, a wrong shape and very deep nesting."""
    first, text, *_ = harness.frames(ReplyScript())
    for bad in (b"{", b"no", b'{"type": 5, "choices": 5}', b'{"type":"error","error":' * 5000, b"\xff\xfe"):
        async with harness.open_with_service(FakeResponse(parts=[first, text, b"data: " + bad + b"\n\n"])) as (
            model,
            _,
        ):
            result = await call_model(model)
        assert result.text == "It is "
        assert result.error is not None
        assert result.error.kind == "invalid"


async def bytes_that_are_not_utf8_are_replaced(harness: HttpHarness) -> None:
    """The standard of server-sent events requires replacement characters."""
    parts = [frame.replace(b"XX", b"\xff") for frame in harness.frames(ReplyScript(pieces=("aXXb",)))]
    async with harness.open_with_service(FakeResponse(parts=parts)) as (model, _):
        assert (await call_model(model)).text == "a\ufffdb"


async def an_event_without_an_end_is_refused(harness: HttpHarness) -> None:
    """The model stops reading before the event fills the memory."""
    parts = [b"data: ", *[b"x" * 2**20] * 20]
    async with harness.open_with_service(FakeResponse(parts=parts)) as (model, _):
        assert (await expect_model_error(model)).kind == "invalid"


async def a_page_instead_of_a_stream_is_refused(harness: HttpHarness) -> None:
    """A wrong base URL returns an HTML page."""
    page = FakeResponse(headers=(("content-type", "text/html; charset=utf-8"),), parts=(b"<html>hello</html>",))
    async with harness.open_with_service(page) as (model, _):
        error = await expect_model_error(model)
    assert error.kind == "invalid"
    assert "text/html" in str(error)


async def a_compressed_stream_is_refused(harness: HttpHarness) -> None:
    """Compression was not requested, and a small stream could expand to any size."""
    packed = FakeResponse(headers=(*STREAM_HEADERS, ("content-encoding", "gzip")), parts=harness.frames(ReplyScript()))
    async with harness.open_with_service(packed) as (model, _):
        assert (await expect_model_error(model)).kind == "invalid"


async def a_redirect_is_not_followed(harness: HttpHarness) -> None:
    """The API key is not sent to another address."""
    async with harness.open_with_service(FakeResponse(status=307, headers=(("location", "/elsewhere"),))) as (
        model,
        service,
    ):
        assert (await expect_model_error(model)).kind == "invalid"
    assert len(service.requests) == 1


async def a_failure_in_the_middle_has_its_kind(harness: HttpHarness) -> None:
    """Services also report failures after a successful status."""
    kinds: tuple[ErrorKind, ...] = ("overloaded", "rate_limited", "context_too_long", "timeout")
    for kind in kinds:
        parts = [*harness.frames(ReplyScript(pieces=("begun",), ending="cut")), harness.dialect.error_frame(kind)]
        async with harness.open_with_service(FakeResponse(parts=parts)) as (model, _):
            result = await call_model(model)
        assert result.text == "begun"
        assert result.error is not None
        assert result.error.kind == kind


async def the_key_is_in_no_message(harness: HttpHarness) -> None:
    """Errors do not contain the API key, even if the service repeats it."""
    body = f'{{"error": {{"message": "Incorrect API key provided: {KEY}."}}}}'.encode()
    async with harness.open_with_service(FakeResponse(status=401, headers=JSON, parts=(body,))) as (model, service):
        error = await expect_model_error(model)
    assert KEY in str(service.requests[0].headers)
    assert KEY not in f"{error} {error!r} {model!r}"
    frame = f'data: {{"type":"error","error":{{"message":"no: {KEY}"}}}}\n\n'.encode()
    async with harness.open_with_service(FakeResponse(parts=(frame,))) as (model, _):
        assert KEY not in str(await expect_model_error(model))


async def giving_up_drops_the_connection(harness: HttpHarness) -> None:
    """The service notices the disconnect and stops writing."""
    parts = [*harness.frames(ReplyScript(pieces=("begun",), ending="cut")), Stall()]
    async with harness.open_with_service(FakeResponse(parts=parts)) as (model, service), asyncio.timeout(WAIT_S):
        async with aclosing(model.stream(REQUEST)) as events:
            await anext(events)
        await service.disconnected.wait()


async def a_connection_is_used_again(harness: HttpHarness) -> None:
    """Connections are reused, because opening one is slow."""
    async with harness.open_with_service(FakeResponse(parts=harness.frames(ReplyScript()))) as (model, service):
        for _ in range(3):
            await call_model(model)
    assert {request.connection for request in service.requests} == {1}
