"""Gates: a proposed step with all that is known about it, and the policies that allow it, refuse it or ask a person."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import msgspec

from timeloom.core.blocks.gate import Verdict
from timeloom.core.view.text_origins import Origin

Effect = Literal["pure", "idempotent", "irreversible"]
"""What repeating a call does: nothing, nothing more, or harm. A call of the last kind is never repeated unasked."""

UNTRUSTED: Final[frozenset[Origin]] = frozenset({"file", "tool", "web", "event"})
"""Origins whose text may try to command the model: everything that the user did not type."""

_STRICTNESS: Final[Mapping[Verdict, int]] = {"allow": 0, "ask": 1, "refuse": 2}


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a step is taken."""

    tenant: str
    project: str
    user: str
    bundle: str = ""


class ModelStep(msgspec.Struct, frozen=True, kw_only=True, tag="model"):
    """A model is about to be asked."""

    model: str
    round: int
    prompt_tokens: int
    priced: bool = True
    """Whether it is known what it costs."""


class ToolStep(msgspec.Struct, frozen=True, kw_only=True, tag="tool"):
    """A tool is about to be called; `params` is the text of a JSON object, `tool_id` the tool's own id."""

    tool_id: str
    params: str
    effect: Effect
    calls_before: int = 0
    """How often this turn has called the tool already."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn or a conversation has spent so far."""

    rounds: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    wall_ms: int = 0


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A step that is about to be taken, who wants it, what was spent, and where the text behind it came from.

    `origins` are those of all that stood in the conversation when the step was proposed. They stay when a block is
    hidden: what the model has read lives on in what it wrote.
    """

    step: ModelStep | ToolStep
    caller: Caller
    turn: Spent = Spent()
    conversation: Spent = Spent()
    origins: frozenset[Origin] = frozenset()

    @property
    def is_tainted(self) -> bool:
        """Whether text that the user did not type was there."""
        return not UNTRUSTED.isdisjoint(self.origins)


class Ruling(msgspec.Struct, frozen=True):
    """What a policy says: a verdict and, unless it allows, the sentence that gives the reason."""

    verdict: Verdict
    text: str = ""
    policy: str = ""


Policy = Callable[[Proposal], Ruling | None]
"""A policy is a plain function; None means that it has nothing against the step."""

ALLOWED: Final = Ruling("allow")


def allow() -> Ruling:
    """The ruling of a policy that has nothing against the step."""
    return ALLOWED


def refuse(text: str) -> Ruling:
    """A ruling that forbids the step; the model is told the reason."""
    return Ruling("refuse", text)


def ask(text: str) -> Ruling:
    """A ruling that leaves the step to a person; the text is the question's reason."""
    return Ruling("ask", text)


def strictest(rulings: Iterable[Ruling]) -> Ruling:
    """The ruling that counts: a refusal before a question before leave; the first of its kind."""
    return max(rulings, key=lambda ruling: _STRICTNESS[ruling.verdict], default=ALLOWED)


def policy_name(policy: Policy) -> str:
    """The name by which the timeline knows a policy: that of its function."""
    return getattr(policy, "__name__", type(policy).__name__)


def irreversible_needs_approval(proposal: Proposal) -> Ruling | None:
    """Asks a person before every irreversible call."""
    match proposal.step:
        case ToolStep(tool_id=tool_id, effect="irreversible"):
            return ask(f"{tool_id} does something that cannot be undone{_taint(proposal)}")
        case _:
            return None


def tainted_irreversible_needs_approval(proposal: Proposal) -> Ruling | None:
    """Asks a person before an irreversible call that untrusted text may have suggested."""
    match proposal.step:
        case ToolStep(tool_id=tool_id, effect="irreversible") if proposal.is_tainted:
            return ask(f"{tool_id} does something that cannot be undone{_taint(proposal)}")
        case _:
            return None


def only_tools(allowed: Iterable[str]) -> Policy:
    """A policy that refuses every tool but these: by id, or all of a family with `family.*`."""
    names = frozenset(allowed)

    def only_allowed_tools(proposal: Proposal) -> Ruling | None:
        match proposal.step:
            case ToolStep(tool_id=tool_id) if names.isdisjoint(_spellings(tool_id)):
                return refuse(f"{tool_id} may not be called here")
            case _:
                return None

    return only_allowed_tools


def ask_before(tools: Iterable[str]) -> Policy:
    """A policy that asks a person before these tools are called: by id, or all of a family with `family.*`."""
    names = frozenset(tools)

    def tools_that_need_approval(proposal: Proposal) -> Ruling | None:
        match proposal.step:
            case ToolStep(tool_id=tool_id) if not names.isdisjoint(_spellings(tool_id)):
                return ask(f"{tool_id} is called here only with a person's leave{_taint(proposal)}")
            case _:
                return None

    return tools_that_need_approval


def calls_per_turn(limits: Mapping[str, int]) -> Policy:
    """A policy that refuses a tool once a turn has called it so often."""

    def limited_calls(proposal: Proposal) -> Ruling | None:
        match proposal.step:
            case ToolStep(tool_id=tool_id, calls_before=before) if before >= limits.get(tool_id, before + 1):
                return refuse(f"a turn may call {tool_id} {limits[tool_id]} times, and this one has")
            case _:
                return None

    return limited_calls


DEFAULT_POLICIES: Final[tuple[Policy, ...]] = (irreversible_needs_approval,)
"""What holds where nothing else was said. `tainted_irreversible_needs_approval` in its place asks less often."""


def _spellings(tool_id: str) -> tuple[str, ...]:
    """The names under which a list of tools may mean this one."""
    return tool_id, f"{tool_id.rpartition('.')[0]}.*", "*"


def _taint(proposal: Proposal) -> str:
    untrusted = sorted(UNTRUSTED & proposal.origins)
    return f", and text from outside ({', '.join(untrusted)}) was there when it was proposed" if untrusted else ""
