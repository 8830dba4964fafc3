"""Rules for the actions that one reply may execute in the same round."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from timeloom.core.policy.read_reply import EXEC_PREFIX, ReplyIssue
from timeloom.core.stream.decision import CallToolDecision, Decision

FanoutMode = Literal["off", "safe_fanout"]

MAX_ACTIONS: Final = 8
"""Maximum number of actions in one round. A larger value lets one reply consume a turn before a person can react."""

NEUTRAL_TOOLS: Final = frozenset({"react.plan", "react.hide", "react.memory_hide", "react.write"})
"""Tools whose result the model does not need, so an answer may follow them in the same round."""

_WRITING_TOOLS: Final = frozenset({"react.write", "react.patch"})


class _WriteTarget(msgspec.Struct):
    path: str = ""


def _check_count(actions: Sequence[Decision]) -> str:
    return f"at most {MAX_ACTIONS} actions share a round, got {len(actions)}" if len(actions) > MAX_ACTIONS else ""


def _check_final_action(actions: Sequence[Decision]) -> str:
    calls = [action for action in actions if isinstance(action, CallToolDecision)]
    if len(calls) == len(actions):
        return ""
    if len(actions) - len(calls) > 1:
        return "a round has at most one final action"
    if not isinstance(actions[-1], CallToolDecision) and all(call.tool_id in NEUTRAL_TOOLS for call in calls):
        return ""
    return "an answer is the last action of its round and stands only beside tools whose result it does not need"


def _check_programs(actions: Sequence[Decision]) -> str:
    runs = [one for one in actions if isinstance(one, CallToolDecision) and one.tool_id.startswith(EXEC_PREFIX)]
    return "a round runs at most one program" if len(runs) > 1 else ""


def _check_writes(actions: Sequence[Decision]) -> str:
    paths = [_written_path(action) for action in actions]
    named = [path for path in paths if path]
    return "two actions of a round write the same file" if len(named) != len(set(named)) else ""


def _check_references(actions: Sequence[Decision]) -> str:
    written: set[str] = set()
    for action in actions:
        if isinstance(action, CallToolDecision) and any(f"ref:{path}" in action.params for path in written):
            return "an action refers to what another of the same round writes; refer to it in a later round"
        if path := _written_path(action):
            written.add(path)
    return ""


RULES: Final[tuple[Callable[[Sequence[Decision]], str], ...]] = (
    _check_count,
    _check_final_action,
    _check_programs,
    _check_writes,
    _check_references,
)
"""Each rule returns a sentence that describes the violation, or an empty string. A set of actions must pass all
rules."""


def find_fanout_faults(actions: Sequence[Decision], mode: FanoutMode) -> tuple[ReplyIssue, ...]:
    """Return the reasons why these actions may not share a round; empty if they may."""
    if len(actions) <= 1:
        return ()
    if mode == "off":
        text = f"a round has one action, got {len(actions)}; write one decision and wait for its result"
        return (ReplyIssue("protocol_violation.several_actions", text),)
    sentences = (rule(actions) for rule in RULES)
    return tuple(ReplyIssue("protocol_violation.fanout_refused", sentence) for sentence in sentences if sentence)


def _written_path(action: Decision) -> str:
    if not isinstance(action, CallToolDecision) or action.tool_id not in _WRITING_TOOLS:
        return ""
    try:
        return msgspec.json.decode(action.params, type=_WriteTarget).path
    except msgspec.MsgspecError:
        return ""
