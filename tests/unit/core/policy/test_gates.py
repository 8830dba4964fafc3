"""Gates and budgets: pure policies over a proposed step."""

import pytest
from msgspec.structs import replace

from timeloom.core.policy.budget import (
    Allowance,
    Budgets,
    BudgetUsage,
    describe_exhausted,
    find_exhausted,
    list_budget_usage,
)
from timeloom.core.policy.gates import (
    DEFAULT_POLICIES,
    Caller,
    ModelStep,
    Policy,
    PolicyResult,
    Proposal,
    SpendTotals,
    ToolStep,
    allow,
    ask,
    ask_before,
    calls_per_turn,
    irreversible_needs_approval,
    only_tools,
    pick_strictest,
    policy_name,
    refuse,
    refuse_tools,
    tainted_irreversible_needs_approval,
    unseen_address_needs_approval,
)
from timeloom.core.view.seen_addresses import NewAddress
from timeloom.core.view.text_origins import TextOrigin

CALLER = Caller(tenant="t", project="p", user="u")
ASKING = ModelStep(model="script:x", round=1, prompt_tokens=100)


def _tool(tool_id: str = "mail.send", effect: str = "irreversible", calls_before: int = 0) -> ToolStep:
    assert effect in ("pure", "idempotent", "irreversible")
    return ToolStep(tool_id=tool_id, params="{}", effect=effect, calls_before=calls_before)


def _proposal(step: ToolStep | ModelStep, *origins: TextOrigin) -> Proposal:
    return Proposal(step=step, caller=CALLER, origins=frozenset(origins))


def _verdict(policy: Policy, step: ToolStep | ModelStep, *origins: TextOrigin) -> str:
    return pick_strictest([policy(_proposal(step, *origins)) or allow()]).verdict


def test_a_refusal_counts_more_than_a_question_and_a_question_more_than_leave() -> None:
    assert pick_strictest([allow(), ask("why"), refuse("no"), refuse("never")]) == PolicyResult("refuse", "no")
    assert pick_strictest([allow(), ask("why")]) == PolicyResult("ask", "why")
    assert pick_strictest([]) == allow()


@pytest.mark.parametrize(("effect", "verdict"), [("pure", "allow"), ("idempotent", "allow"), ("irreversible", "ask")])
def test_by_default_a_person_is_asked_before_what_cannot_be_undone(effect: str, verdict: str) -> None:
    rulings = [policy(_proposal(_tool(effect=effect))) or allow() for policy in DEFAULT_POLICIES]
    assert pick_strictest(rulings).verdict == verdict


def test_no_default_policy_stands_in_the_way_of_a_model_call() -> None:
    assert [policy(_proposal(ASKING, "web")) for policy in DEFAULT_POLICIES] == [None, None]


@pytest.mark.parametrize("origin", ["file", "tool", "web", "event"])
def test_untrusted_text_makes_an_irreversible_step_a_question(origin: TextOrigin) -> None:
    assert _verdict(tainted_irreversible_needs_approval, _tool(), "user", origin) == "ask"
    assert _verdict(tainted_irreversible_needs_approval, _tool(), "user") == "allow"
    assert _verdict(tainted_irreversible_needs_approval, _tool(effect="idempotent"), origin) == "allow"


NEW = NewAddress(url="https://a.example/x?q=\u202esecret", known="a.example/x", added="?q=\u202esecret")


def test_a_new_address_is_asked_about_once_there_is_text_from_outside() -> None:
    step = ToolStep(tool_id="web_tools.web_fetch", params="{}", effect="pure", new_addresses=(NEW,))
    assert _verdict(unseen_address_needs_approval, step, "user") == "allow"
    assert _verdict(unseen_address_needs_approval, step, "user", "web") == "ask"
    assert _verdict(unseen_address_needs_approval, _tool("web_tools.web_fetch", "pure"), "web") == "allow"


def test_the_question_shows_the_new_part_of_an_address_and_no_raw_control_characters() -> None:
    others = tuple(NewAddress(url=f"https://b{n}.example/", known="", added="x") for n in range(4))
    step = ToolStep(tool_id="web_tools.web_fetch", params="{}", effect="pure", new_addresses=(NEW, *others))
    ruling = unseen_address_needs_approval(_proposal(step, "tool"))
    assert ruling is not None
    assert ruling.text.startswith("web_tools.web_fetch requests an address that neither you nor a source wrote: ")
    assert r"(new: '?q=\u202esecret')" in ruling.text
    assert "(a new host)" in ruling.text
    reference = NewAddress(url="ref:fi:t1/a.txt", known="", added="ref:fi:t1/a.txt")
    asked = unseen_address_needs_approval(_proposal(replace(step, new_addresses=(reference,)), "tool"))
    assert asked is not None
    assert "the text of an artifact" in asked.text
    assert ruling.text.endswith(" and 2 more")


def test_the_question_says_where_the_text_behind_it_came_from() -> None:
    ruling = irreversible_needs_approval(_proposal(_tool(), "web", "user", "file"))
    assert ruling is not None
    assert "text from outside (file, web)" in ruling.text


def test_refused_tools_are_refused_by_id_and_by_family() -> None:
    policy = refuse_tools(["orders.*", "web_tools.search"])
    verdicts = [_verdict(policy, _tool(name)) for name in ("orders.find", "web_tools.search", "web_tools.fetch")]
    assert verdicts == ["refuse", "refuse", "allow"]
    assert _verdict(policy, ASKING) == "allow"


def test_only_listed_tools_and_families_may_be_called() -> None:
    policy = only_tools(["react.*", "web_tools.search"])
    assert _verdict(policy, _tool("react.read")) == "allow"
    assert _verdict(policy, _tool("web_tools.search")) == "allow"
    assert _verdict(policy, _tool("web_tools.fetch")) == "refuse"
    assert _verdict(policy, ASKING) == "allow"
    assert _verdict(only_tools(["*"]), _tool()) == "allow"
    assert policy_name(policy) == "only_allowed_tools"


def test_a_person_is_asked_before_listed_tools_and_families_whatever_they_do() -> None:
    policy = ask_before(["react.*", "mail.read"])
    assert _verdict(policy, _tool("react.write", "idempotent")) == "ask"
    assert _verdict(policy, _tool("mail.read", "pure")) == "ask"
    assert _verdict(policy, _tool("mail.send")) == "allow"
    assert _verdict(policy, ASKING) == "allow"
    assert policy_name(policy) == "tools_that_need_approval"


def test_a_tool_is_refused_once_a_turn_has_called_it_as_often_as_it_may() -> None:
    policy = calls_per_turn({"mail.send": 2})
    assert [_verdict(policy, _tool(calls_before=n)) for n in (0, 1, 2, 3)] == ["allow", "allow", "refuse", "refuse"]
    assert _verdict(policy, _tool("other.tool", calls_before=9)) == "allow"
    assert _verdict(policy, ASKING) == "allow"


def test_a_policy_may_be_any_callable() -> None:
    class Weekend:
        def __call__(self, proposal: Proposal) -> PolicyResult | None:
            return None

    assert policy_name(Weekend()) == "Weekend"


def test_a_scope_without_limits_has_no_accounts() -> None:
    assert list_budget_usage("turn", Budgets().turn, SpendTotals(rounds=99)) == ()


SPENT = SpendTotals(rounds=3, model_calls=4, tool_calls=5, tokens=600, cost_nano_usd=7_000_000)


def test_an_account_says_what_was_used_of_each_limit() -> None:
    every = Allowance(rounds=10, tokens=1000, cost_nano_usd=10_000_000, tool_calls=5, wall_ms=2000)
    used = {one.measure: one.used for one in list_budget_usage("turn", every, replace(SPENT, wall_ms=1500))}
    assert used == {"rounds": 3, "tokens": 600, "cost_nano_usd": 7_000_000, "tool_calls": 5, "wall_ms": 1500}


@pytest.mark.parametrize(
    ("allowance", "model", "tool"),
    [
        (Allowance(rounds=3), False, False),
        (Allowance(rounds=2), True, False),
        (Allowance(tokens=600), True, False),
        (Allowance(tokens=601), False, False),
        (Allowance(cost_nano_usd=7_000_000), True, False),
        (Allowance(tool_calls=5), False, True),
        (Allowance(tool_calls=6), False, False),
        (Allowance(wall_ms=1000), True, True),
        (Allowance(wall_ms=1001), False, False),
    ],
)
def test_a_used_up_budget_stops_the_steps_that_spend_of_it(allowance: Allowance, model: bool, tool: bool) -> None:
    known = list_budget_usage("conversation", allowance, replace(SPENT, wall_ms=1000))
    assert (find_exhausted(known, ASKING) is not None) is model
    assert (find_exhausted(known, _tool()) is not None) is tool


@pytest.mark.parametrize(
    ("account", "sentence"),
    [
        (BudgetUsage("turn", "rounds", 3, 2), "the turn's budget is used up: 2 rounds of 2 rounds"),
        (BudgetUsage("user", "tokens", 9, 8), "the user's budget is used up: 9 tokens of 8 tokens"),
        (
            BudgetUsage("tree", "cost_nano_usd", 12_345_678, 10_000_000),
            "the tree's budget is used up: $0.0123 of $0.0100",
        ),
        (BudgetUsage("turn", "tool_calls", 2, 2), "the turn's budget is used up: 2 tool calls of 2 tool calls"),
        (BudgetUsage("turn", "wall_ms", 1500, 1000), "the turn's budget is used up: 1.5 s of 1.0 s"),
    ],
)
def test_what_is_used_up_is_said_in_its_unit(account: BudgetUsage, sentence: str) -> None:
    assert describe_exhausted(account) == sentence
