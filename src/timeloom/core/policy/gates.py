"""Policies that allow a proposed step, refuse it, or ask a person to approve it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import msgspec

from timeloom.core.blocks.gate import Verdict
from timeloom.core.view.seen_addresses import REFERENCE, NewAddress
from timeloom.core.view.text_origins import TextOrigin

Effect = Literal["pure", "idempotent", "irreversible"]
"""The effect of repeating a call: none (`pure`), no further effect (`idempotent`), or harm (`irreversible`).
Irreversible calls are never repeated without approval."""

UNTRUSTED_ORIGINS: Final[frozenset[TextOrigin]] = frozenset({"file", "tool", "web", "event", "quoted"})
"""Origins of text that may contain instructions to the model: everything that the user did not type."""

# A misspelled name matches no tool and would silently skip an approval, so the form of names is checked.
TOOL_ID_PATTERN: Final = r"\A[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+\Z"
"""The form of a tool's id in a list of rules, as a regular expression."""

TOOL_NAME_PATTERN: Final = r"\A(?:\*|[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\.(?:[A-Za-z0-9_-]+|\*))\Z"
"""The form of a tool's id, of a family such as `web.*`, or of `*`, as a regular expression."""

_STRICTNESS: Final[Mapping[Verdict, int]] = {"allow": 0, "ask": 1, "refuse": 2}


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant, project, user and bundle on whose behalf a step is taken."""

    tenant: str
    project: str
    user: str
    bundle: str = ""


class ModelStep(msgspec.Struct, frozen=True, kw_only=True, tag="model"):
    """A proposed model request."""

    model: str
    round: int
    prompt_tokens: int
    priced: bool = True
    """Whether the price of the model is known."""


class ToolStep(msgspec.Struct, frozen=True, kw_only=True, tag="tool"):
    """A proposed tool call; `params` is the text of a JSON object, `tool_id` the canonical id of the tool."""

    tool_id: str
    params: str
    effect: Effect
    calls_before: int = 0
    """How many times the current turn has called this tool already."""
    new_addresses: tuple[NewAddress, ...] = ()
    """The web addresses of the call that neither the user typed nor a source contains."""
    unknown_call: str = ""
    """The earlier call of this tool whose effect is unknown; empty if there is none, or a person has decided since."""
    repairs: tuple[str, ...] = ()
    """Names of the repairs without which the call could not be read; empty if only its JSON spelling was repaired."""


class SpendTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that a turn or a conversation has spent so far."""

    rounds: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    wall_ms: int = 0


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed step with its caller, the amounts spent so far, and the origins of the text in the conversation.

    `origins` covers all text that was in the conversation when the step was proposed. Hiding a block does not remove
    its origin, because text that the model has read influences its later text.
    """

    step: ModelStep | ToolStep
    caller: Caller
    turn: SpendTotals = SpendTotals()
    conversation: SpendTotals = SpendTotals()
    origins: frozenset[TextOrigin] = frozenset()

    @property
    def is_tainted(self) -> bool:
        """Whether the conversation contains text that the user did not type."""
        return not UNTRUSTED_ORIGINS.isdisjoint(self.origins)


class PolicyResult(msgspec.Struct, frozen=True):
    """The verdict of one policy, with a reason unless the verdict is `allow`."""

    verdict: Verdict
    text: str = ""
    policy: str = ""


Policy = Callable[[Proposal], PolicyResult | None]
"""A plain function from a proposal to a result. None means that the policy has no objection."""

ALLOWED: Final = PolicyResult("allow")


def allow() -> PolicyResult:
    """Return the result of a policy that has no objection."""
    return ALLOWED


def refuse(text: str) -> PolicyResult:
    """Return a result that forbids the step; the model receives `text` as the reason."""
    return PolicyResult("refuse", text)


def ask(text: str) -> PolicyResult:
    """Return a result that asks a person to approve the step; `text` is the reason shown with the question."""
    return PolicyResult("ask", text)


def pick_strictest(results: Iterable[PolicyResult]) -> PolicyResult:
    """Return the first of the strictest results: `refuse` before `ask` before `allow`."""
    return max(results, key=lambda ruling: _STRICTNESS[ruling.verdict], default=ALLOWED)


def policy_name(policy: Policy) -> str:
    """Return the name under which the timeline records a policy: the name of its function."""
    return getattr(policy, "__name__", type(policy).__name__)


def irreversible_needs_approval(proposal: Proposal) -> PolicyResult | None:
    """Require approval for every irreversible call."""
    match proposal.step:
        case ToolStep(tool_id=tool_id, effect="irreversible"):
            return ask(f"{tool_id} does something that cannot be undone{_taint_note(proposal)}")
        case _:
            return None


def tainted_irreversible_needs_approval(proposal: Proposal) -> PolicyResult | None:
    """Require approval for an irreversible call if the conversation contains untrusted text."""
    match proposal.step:
        case ToolStep(tool_id=tool_id, effect="irreversible") if proposal.is_tainted:
            return ask(f"{tool_id} does something that cannot be undone{_taint_note(proposal)}")
        case _:
            return None


def repaired_irreversible_needs_approval(proposal: Proposal) -> PolicyResult | None:
    """Require approval for an irreversible call that was not written in the expected form; always in force."""
    match proposal.step:
        case ToolStep(tool_id=tool_id, effect="irreversible", repairs=repairs) if repairs:
            return ask(f"{tool_id} cannot be undone, and the call was repaired ({', '.join(repairs)})")
        case _:
            return None


def unseen_address_needs_approval(proposal: Proposal) -> PolicyResult | None:
    """Require approval for addresses that nobody wrote, if the conversation contains untrusted text.

    Such an address can carry text of the conversation to its server. The question shows the part that is new.
    """
    match proposal.step:
        case ToolStep(tool_id=tool_id, new_addresses=new) if new and proposal.is_tainted:
            shown = "; ".join(map(_describe_address, new[:_SHOWN_ADDRESSES]))
            more = f" and {len(new) - _SHOWN_ADDRESSES} more" if len(new) > _SHOWN_ADDRESSES else ""
            return ask(f"{tool_id} requests an address that neither you nor a source wrote: {shown}{more}")
        case _:
            return None


def unknown_outcome_needs_approval(proposal: Proposal) -> PolicyResult | None:
    """Require approval to call an irreversible tool again whose last effect is unknown; always in force."""
    match proposal.step:
        case ToolStep(tool_id=tool_id, effect="irreversible", unknown_call=call_id) if call_id:
            return ask(f"{tool_id} cannot be undone, and the call {call_id} may have had its effect already")
        case _:
            return None


def only_tools(allowed: Iterable[str]) -> Policy:
    """Return a policy that refuses all tools except these, given as ids or as `family.*`."""
    names = frozenset(allowed)

    def only_allowed_tools(proposal: Proposal) -> PolicyResult | None:
        match proposal.step:
            case ToolStep(tool_id=tool_id) if names.isdisjoint(_matching_patterns(tool_id)):
                return refuse(f"{tool_id} may not be called here")
            case _:
                return None

    return only_allowed_tools


def refuse_tools(tools: Iterable[str]) -> Policy:
    """Return a policy that refuses these tools, given as ids or as `family.*`."""
    names = frozenset(tools)

    def refused_tools(proposal: Proposal) -> PolicyResult | None:
        match proposal.step:
            case ToolStep(tool_id=tool_id) if not names.isdisjoint(_matching_patterns(tool_id)):
                return refuse(f"{tool_id} may not be called here")
            case _:
                return None

    return refused_tools


def ask_before(tools: Iterable[str]) -> Policy:
    """Return a policy that requires approval for these tools, given as ids or as `family.*`."""
    names = frozenset(tools)

    def tools_that_need_approval(proposal: Proposal) -> PolicyResult | None:
        match proposal.step:
            case ToolStep(tool_id=tool_id) if not names.isdisjoint(_matching_patterns(tool_id)):
                return ask(f"{tool_id} needs a person's approval here{_taint_note(proposal)}")
            case _:
                return None

    return tools_that_need_approval


def calls_per_turn(limits: Mapping[str, int]) -> Policy:
    """Return a policy that limits how many times one turn may call each tool."""

    def limited_calls(proposal: Proposal) -> PolicyResult | None:
        match proposal.step:
            case ToolStep(tool_id=tool_id, calls_before=before) if before >= limits.get(tool_id, before + 1):
                return refuse(f"a turn may call {tool_id} {limits[tool_id]} times, and this one has")
            case _:
                return None

    return limited_calls


DEFAULT_POLICIES: Final[tuple[Policy, ...]] = (irreversible_needs_approval, unseen_address_needs_approval)
"""The policies used when none are configured. `tainted_irreversible_needs_approval` in place of the first one asks less
often."""

_SHOWN_ADDRESSES: Final = 3
_SHOWN_CHARS: Final = 300


def _matching_patterns(tool_id: str) -> tuple[str, ...]:
    """Return all patterns of a tool list that match this tool."""
    return tool_id, f"{tool_id.rpartition('.')[0]}.*", "*"


def _describe_address(address: NewAddress) -> str:
    """Return the address and its new part in ASCII, so that no invisible character is hidden."""
    whole = ascii(address.url[:_SHOWN_CHARS])
    if address.known:
        return f"{whole} (new: {address.added[:_SHOWN_CHARS]!a})"
    return f"{whole} ({'the text of an artifact' if address.url.lstrip().startswith(REFERENCE) else 'a new host'})"


def _taint_note(proposal: Proposal) -> str:
    untrusted = sorted(UNTRUSTED_ORIGINS & proposal.origins)
    return f", and text from outside ({', '.join(untrusted)}) was there when it was proposed" if untrusted else ""
