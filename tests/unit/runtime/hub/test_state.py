"""The transitions of a live conversation, as plain values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import CallId
from timeloom.core.timeline import NO_TURN
from timeloom.runtime.hub.events import ChatError
from timeloom.runtime.hub.state import (
    AppendRequest,
    ArmIdleTimer,
    ClosedState,
    CloseRequest,
    CreateRequest,
    DecideRequest,
    DeliverRequest,
    Effect,
    FailedState,
    HandleRequest,
    IdleState,
    IdleTimeout,
    IncomingMessage,
    Input,
    LeaseLost,
    OpenSession,
    PauseQueue,
    PublishError,
    PublishStatus,
    RejectRequest,
    ReleasedState,
    ReleaseRequest,
    ReleaseSession,
    ResumeOpenWork,
    ResumeRequest,
    RunningState,
    SettleTitle,
    SettlingState,
    StartTurnTask,
    State,
    TitleSettled,
    TurnOpened,
    TurnStopped,
    transition,
)

HEADER = ConversationStarted(tenant="t", project="p", user="u")
MESSAGE = DeliverRequest(IncomingMessage(text="hello"))
ERROR = ChatError(code="internal_error", message="it broke")
CLOSING = ChatError(code="server_closing", message="the server is shutting down")


def test_a_request_opens_a_released_conversation_before_it_is_handled() -> None:
    assert transition(ReleasedState(), MESSAGE) == (
        IdleState(),
        (OpenSession(), ArmIdleTimer(), HandleRequest(MESSAGE)),
    )


def test_a_new_conversation_is_opened_with_its_header() -> None:
    create = CreateRequest(HEADER)
    _, effects = transition(ReleasedState(), create)
    assert effects == (OpenSession(HEADER), ArmIdleTimer(), HandleRequest(create))


@pytest.mark.parametrize(("state", "after"), [(IdleState(), IdleState()), (RunningState(3), RunningState(3))])
def test_a_request_to_an_open_conversation_only_restarts_the_timer(state: State, after: State) -> None:
    assert transition(state, MESSAGE) == (after, (ArmIdleTimer(), HandleRequest(MESSAGE)))


def test_a_request_ends_the_wait_for_a_title() -> None:
    state, _ = transition(SettlingState(1), MESSAGE)
    assert state == IdleState()
    assert transition(state, TitleSettled(1)) == (IdleState(), ())


def test_a_request_after_a_failure_reopens_the_conversation_from_the_store() -> None:
    state, effects = transition(FailedState(), MESSAGE)
    assert (state, effects[:2]) == (IdleState(), (ReleaseSession(), OpenSession()))


def test_an_open_turn_gets_one_task() -> None:
    assert transition(IdleState(), TurnOpened(False, 5)) == (RunningState(5), (StartTurnTask(5),))
    assert transition(RunningState(5), TurnOpened(True, 6)) == (RunningState(5), ())


def test_a_task_that_has_ended_is_replaced_before_its_report_arrives() -> None:
    state, effects = transition(RunningState(5), TurnOpened(False, 6))
    assert (state, effects) == (RunningState(6), (StartTurnTask(6),))
    assert transition(state, TurnStopped(5)) == (RunningState(6), ())


def test_a_turn_that_stops_leaves_the_conversation_idle() -> None:
    assert transition(RunningState(5), TurnStopped(5)) == (IdleState(), (ArmIdleTimer(), ResumeOpenWork()))


def test_a_turn_that_fails_is_reported_to_readers() -> None:
    told = (PublishError(ERROR), PublishStatus(), ArmIdleTimer())
    assert transition(RunningState(5), TurnStopped(5, ERROR)) == (FailedState(), told)
    assert transition(RunningState(6), TurnStopped(5, ERROR)) == (RunningState(6), (PublishError(ERROR),))


def test_an_idle_conversation_is_released_once_its_title_is_settled() -> None:
    state, effects = transition(IdleState(), IdleTimeout(7))
    assert (state, effects) == (SettlingState(7), (SettleTitle(7),))
    assert transition(state, TitleSettled(6)) == (state, ())
    assert transition(state, TitleSettled(7)) == (ReleasedState(), (ReleaseSession(),))


def test_a_failed_conversation_is_released_without_a_title() -> None:
    assert transition(FailedState(), IdleTimeout(7)) == (ReleasedState(), (ReleaseSession(),))


@pytest.mark.parametrize("state", [RunningState(5), ReleasedState(), SettlingState(3)])
def test_the_timer_releases_nothing_else(state: State) -> None:
    assert transition(state, IdleTimeout(7)) == (state, ())


def test_a_lost_lease_releases_first_and_reports_after() -> None:
    assert transition(RunningState(5), LeaseLost(ERROR)) == (ReleasedState(), (ReleaseSession(), PublishError(ERROR)))
    assert transition(ReleasedState(), LeaseLost()) == (ReleasedState(), ())


def test_the_late_report_of_an_earlier_task_does_not_release_a_reopened_conversation() -> None:
    assert transition(RunningState(6), LeaseLost(ERROR, 5)) == (RunningState(6), (PublishError(ERROR),))
    assert transition(RunningState(5), LeaseLost(ERROR, 5))[0] == ReleasedState()


def test_a_running_turn_refuses_a_release_that_does_not_stop_it() -> None:
    state, (effect,) = transition(RunningState(5), ReleaseRequest(stops_turn=False))
    assert isinstance(effect, RejectRequest)
    assert (state, effect.code) == (RunningState(5), "turn_open")
    assert transition(state, ReleaseRequest(stops_turn=True)) == (ReleasedState(), (ReleaseSession(), PauseQueue()))


def test_a_release_pauses_the_queue_also_where_nothing_is_open() -> None:
    assert transition(ReleasedState(), ReleaseRequest(stops_turn=False)) == (ReleasedState(), (PauseQueue(),))


def test_a_closed_conversation_refuses_requests_and_ignores_reports() -> None:
    state, effects = transition(RunningState(5), CloseRequest(CLOSING))
    assert (state, effects) == (ClosedState(CLOSING), (ReleaseSession(),))
    assert transition(state, MESSAGE) == (state, (RejectRequest(CLOSING.code, CLOSING.message),))
    assert transition(state, TurnStopped(5, ERROR)) == (state, ())
    assert transition(state, CloseRequest(ERROR)) == (state, ())


inputs: st.SearchStrategy[Input] = st.one_of(
    st.sampled_from(
        [
            CreateRequest(HEADER),
            MESSAGE,
            DecideRequest(CallId("c"), True, "u", ""),
            AppendRequest((), NO_TURN),
            ResumeRequest(),
            ReleaseRequest(stops_turn=False),
            ReleaseRequest(stops_turn=True),
            CloseRequest(CLOSING),
            LeaseLost(),
            LeaseLost(ERROR),
            LeaseLost(ERROR, 3),
        ]
    ),
    st.builds(TurnOpened, st.booleans(), st.integers(1, 9)),
    st.builds(TurnStopped, st.integers(1, 9), st.sampled_from([None, ERROR])),
    st.builds(IdleTimeout, st.integers(1, 9)),
    st.builds(TitleSettled, st.integers(1, 9)),
)


@given(st.lists(inputs, max_size=30))
def test_a_session_is_open_exactly_in_the_open_states(given_inputs: list[Input]) -> None:
    state: State = ReleasedState()
    is_open = False
    for one in given_inputs:
        state, effects = transition(state, one)
        for effect in effects:
            is_open = _is_open_after(effect, is_open=is_open)
        assert is_open == (not isinstance(state, ReleasedState | ClosedState))


def _is_open_after(effect: Effect, *, is_open: bool) -> bool:
    """Whether the session is open after the effect; no effect needs a session that is not there, or opens it twice."""
    match effect:
        case OpenSession():
            assert not is_open
            return True
        case ReleaseSession():
            assert is_open
            return False
        case HandleRequest() | StartTurnTask() | SettleTitle():
            assert is_open
            return is_open
        case _:
            return is_open
