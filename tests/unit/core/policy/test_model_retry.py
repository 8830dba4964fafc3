"""Retries of model requests: the delay grows with failures, and a provider's own delay comes first."""

from timeloom.core.policy.model_retry import BACKOFF_S, retry_delay_s


def test_the_first_request_is_sent_at_once() -> None:
    assert retry_delay_s(0, None) == 0.0


def test_each_failure_waits_longer_up_to_the_last_step() -> None:
    delays = [retry_delay_s(failures, None) for failures in range(1, len(BACKOFF_S) + 3)]
    assert delays == [*BACKOFF_S, BACKOFF_S[-1], BACKOFF_S[-1]]


def test_a_delay_that_the_provider_names_replaces_ours() -> None:
    assert retry_delay_s(1, 7.5) == 7.5
