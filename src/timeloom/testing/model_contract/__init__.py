"""The contract of a model adapter, as checks that any project can run on its own adapter.

A check takes a harness: a function that opens the model under test with reply scripts for the service behind it.
With pytest, for a model that speaks one of the two usual HTTP APIs:

    HARNESS = HttpHarness(OpenAIDialect(), lambda url, key, timeouts: MyModel(f"{url}/v1", key, timeouts))

    @pytest.mark.parametrize("check", MODEL_CONTRACT, ids=lambda check: check.__name__)
    def test_my_model_keeps_the_contract(check: Check) -> None:
        asyncio.run(check(over_http(HARNESS)))

    @pytest.mark.parametrize("check", HTTP_CONTRACT, ids=lambda check: check.__name__)
    def test_my_model_bears_what_services_send(check: HttpCheck) -> None:
        asyncio.run(check(HARNESS))

`MODEL_CONTRACT` applies to every model. `HTTP_CONTRACT` applies also to models that call a service over HTTP; its
responses are scripted byte by byte.
"""

from collections.abc import Sequence
from typing import Final

from timeloom.testing.model_contract import http, replies
from timeloom.testing.model_contract.fixtures import (
    Check,
    HttpCheck,
    HttpHarness,
    ModelHarness,
    ReplyScript,
    over_http,
    over_script,
)

MODEL_CONTRACT: Final[Sequence[Check]] = (
    replies.pieces_come_in_order_and_then_the_end,
    replies.usage_is_what_the_service_reported,
    replies.the_same_request_gets_the_same_reply,
    replies.any_text_comes_through_unchanged,
    replies.halves_of_a_character_are_joined_and_lone_ones_replaced,
    replies.half_a_character_before_a_cut_is_replaced,
    replies.a_very_large_piece_comes_through,
    replies.a_reply_far_beyond_its_tokens_is_cut,
    replies.an_empty_reply_is_a_reply,
    replies.a_cut_reply_gives_what_had_come_and_then_says_so,
    replies.a_failure_says_of_which_kind_it_is,
    replies.a_failed_call_does_not_spoil_the_next,
    replies.streams_at_the_same_time_do_not_mix,
    replies.a_reply_can_be_given_up,
    replies.closing_twice_does_nothing,
)

HTTP_CONTRACT: Final[Sequence[HttpCheck]] = (
    http.however_the_bytes_are_cut_the_reply_is_the_same,
    http.comments_and_unknown_events_are_passed_over,
    http.thinking_is_no_part_of_the_reply,
    http.halves_of_a_character_in_thinking_are_joined,
    http.a_rate_limit_says_how_long_to_wait,
    http.each_status_has_its_kind,
    http.a_service_that_is_not_there_is_unreachable,
    http.a_service_that_hangs_up_at_once_is_unreachable,
    http.a_slow_first_byte_is_a_timeout,
    http.silence_in_the_middle_is_a_timeout,
    http.comments_do_not_keep_a_silent_reply_alive,
    http.a_reply_that_does_not_end_in_time_is_a_timeout,
    http.a_stream_without_content_is_bounded_by_the_tokens_of_its_reply,
    http.a_slow_reader_loses_nothing_of_a_cut_reply,
    http.what_is_not_json_is_refused,
    http.bytes_that_are_not_utf8_are_replaced,
    http.an_event_without_an_end_is_refused,
    http.a_page_instead_of_a_stream_is_refused,
    http.a_compressed_stream_is_refused,
    http.a_redirect_is_not_followed,
    http.a_failure_in_the_middle_has_its_kind,
    http.the_key_is_in_no_message,
    http.giving_up_drops_the_connection,
    http.a_connection_is_used_again,
)

__all__ = [
    "HTTP_CONTRACT",
    "MODEL_CONTRACT",
    "Check",
    "HttpCheck",
    "HttpHarness",
    "ModelHarness",
    "ReplyScript",
    "over_http",
    "over_script",
]
