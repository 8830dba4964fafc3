"""Rules for the actions that one reply may execute in the same round."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from timeloom.core.blocks.tool_traits import NO_CUSTOM_TRAITS, CustomTraits, resolve_traits
from timeloom.core.policy.read_reply import ReplyIssue, find_programs
from timeloom.core.stream.decision import CallToolDecision, Decision

FanoutMode = Literal["off", "safe_fanout"]

MAX_ACTIONS: Final = 8
"""Maximum number of actions in one round. A larger value lets one reply consume a turn before a person can react."""

_PARAMS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _check_count(actions: Sequence[Decision], _: CustomTraits) -> str:
    return f"at most {MAX_ACTIONS} actions share a round, got {len(actions)}" if len(actions) > MAX_ACTIONS else ""


def _check_final_action(actions: Sequence[Decision], custom: CustomTraits) -> str:
    calls = [action for action in actions if isinstance(action, CallToolDecision)]
    if len(calls) == len(actions):
        return ""
    if len(actions) - len(calls) > 1:
        return "a round has at most one final action"
    needs_result = any(not resolve_traits(call.tool_id, custom.get(call.tool_id)).allows_answer for call in calls)
    if not isinstance(actions[-1], CallToolDecision) and not needs_result:
        return ""
    return "an answer must be the last action of its round, and only beside tools whose result it does not need"


def _check_programs(actions: Sequence[Decision], custom: CustomTraits) -> str:
    return "a round runs at most one program" if len(find_programs(actions, custom)) > 1 else ""


def _check_writes(actions: Sequence[Decision], custom: CustomTraits) -> str:
    paths = [_written_path(action, custom) for action in actions]
    named = [path for path in paths if path]
    return "two actions of a round write the same file" if len(named) != len(set(named)) else ""


def _check_references(actions: Sequence[Decision], custom: CustomTraits) -> str:
    written: set[str] = set()
    for action in actions:
        if isinstance(action, CallToolDecision) and any(f"ref:{path}" in action.params for path in written):
            return "an action refers to a file that another action of this round writes; refer to it in a later round"
        if path := _written_path(action, custom):
            written.add(path)
    return ""


RULES: Final[tuple[Callable[[Sequence[Decision], CustomTraits], str], ...]] = (
    _check_count,
    _check_final_action,
    _check_programs,
    _check_writes,
    _check_references,
)
"""Each rule returns a sentence that describes the violation, or an empty string. A set of actions must pass all
rules."""


def find_fanout_faults(
    actions: Sequence[Decision], mode: FanoutMode, custom: CustomTraits = NO_CUSTOM_TRAITS
) -> tuple[ReplyIssue, ...]:
    """Return the reasons why these actions may not share a round; empty if they may.

    `custom` holds the traits of the conversation's tools that differ from the built-in ones.
    """
    if len(actions) <= 1:
        return ()
    if mode == "off":
        text = f"a round has one action, got {len(actions)}; write one decision and wait for its result"
        return (ReplyIssue("protocol_violation.several_actions", text),)
    sentences = (rule(actions, custom) for rule in RULES)
    return tuple(ReplyIssue("protocol_violation.fanout_refused", sentence) for sentence in sentences if sentence)


def _written_path(action: Decision, custom: CustomTraits) -> str:
    if not isinstance(action, CallToolDecision):
        return ""
    name = resolve_traits(action.tool_id, custom.get(action.tool_id)).path_param
    if not name:
        return ""
    try:
        path = _PARAMS.decode(action.params).get(name)
        return msgspec.json.decode(path, type=str) if path is not None else ""
    except msgspec.MsgspecError:
        return ""
