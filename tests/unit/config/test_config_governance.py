"""Settings of governance: the budgets and policies that they come to."""

import pytest

from tests.harness.config import parse_file, resolve_settings
from timeloom.app import AgentSettings
from timeloom.config.catalogue import SETTING_SPECS, SPEC_BY_KEY
from timeloom.config.errors import ConfigError
from timeloom.config.parse_value import describe_expected
from timeloom.core.policy.budget import MEASURES, SCOPES, Allowance, Budgets
from timeloom.core.policy.gates import (
    DEFAULT_POLICIES,
    Caller,
    Effect,
    PolicyResult,
    Proposal,
    ToolStep,
    allow,
    pick_strictest,
    policy_name,
)
from timeloom.core.view.text_origins import TextOrigin


def policies_of(toml: str) -> list[str]:
    return [policy_name(policy) for policy in AgentSettings.from_settings(resolve_settings(toml)).policies]


def ruling(
    toml: str, tool_id: str, effect: Effect = "pure", *origins: TextOrigin, calls_before: int = 0
) -> PolicyResult:
    """Return the verdict of the configured policies on a call."""
    step = ToolStep(tool_id=tool_id, params="{}", effect=effect, calls_before=calls_before)
    caller = Caller(tenant="t", project="p", user="u")
    proposal = Proposal(step=step, caller=caller, origins=frozenset(origins))
    return pick_strictest(
        policy(proposal) or allow() for policy in AgentSettings.from_settings(resolve_settings(toml)).policies
    )


def test_every_scope_has_a_setting_for_every_measure() -> None:
    keys = [row.key for row in SETTING_SPECS if row.key.startswith("budget.")]
    names = {"cost_nano_usd": "usd", "wall_ms": "wall_s"}
    assert keys == [f"budget.{scope}.{names.get(measure, measure)}" for scope in SCOPES for measure in MEASURES]


def test_without_settings_nothing_is_limited_and_irreversible_calls_are_asked_about() -> None:
    setting = AgentSettings.from_settings(resolve_settings())
    assert setting.budgets == Budgets()
    assert setting.policies == DEFAULT_POLICIES


def test_budgets_are_said_in_dollars_and_seconds_and_counted_finer() -> None:
    toml = "[budget]\nturn = {rounds = 5, tokens = 1000, usd = 0.50, tool_calls = 0, wall_s = 1.5}\nuser.usd = 10"
    assert AgentSettings.from_settings(resolve_settings(toml)).budgets == Budgets(
        turn=Allowance(rounds=5, tokens=1000, cost_nano_usd=500_000_000, tool_calls=0, wall_ms=1500),
        user=Allowance(cost_nano_usd=10_000_000_000),
    )


@pytest.mark.parametrize("scope", SCOPES)
def test_a_variable_counts_over_the_file_for_its_measure_alone(scope: str) -> None:
    variables = {f"TIMELOOM_BUDGET_{scope.upper()}_USD": "0.25"}
    budgets = AgentSettings.from_settings(
        resolve_settings(f"budget.{scope} = {{usd = 9, rounds = 3}}", **variables)
    ).budgets
    assert getattr(budgets, scope) == Allowance(rounds=3, cost_nano_usd=250_000_000)


def test_a_limit_of_the_file_is_lifted_by_the_word_none() -> None:
    settings = resolve_settings("budget.turn.tokens = 10", TIMELOOM_BUDGET_TURN_TOKENS="none")
    assert AgentSettings.from_settings(settings).budgets == Budgets()


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        (
            "budget.turn.usd = 0",
            "budget.turn.usd in timeloom.toml, line 1 is 0; expected a number above 0, at most",
        ),
        ("budget.turn.usd = '$1'", "is '$1'; expected a number above 0, at most 1000000 or `none`"),
        ("budget.turn.tokens = 0", "is 0; expected a whole number from 1 to 1000000000000 or `none`"),
        ("budget.turn.tool_calls = -1", "is -1; expected a whole number from 0 to 1000000000000 or `none`"),
        ("budget.turn.wall_s = true", "is true; expected a number above 0, at most 100000000 or `none`"),
        ("policy.irreversible = 'ask'", "is 'ask'; expected `allow` or `approve` or `approve_tainted`"),
        ("policy.tools = 'web.search'", "is 'web.search'; expected tools such as `web.search`, or `web.*`"),
        ("policy.ask_before = ['web.*', 'react']", "line 1 is 'react'; expected tools such as"),
        ("policy.ask_before = ['react*']", "line 1 is 'react*'; expected tools such as"),
        ("policy.ask_before = [3]", "line 1 is 3; expected tools such as"),
        ("policy.calls_per_turn = 3", "is 3; expected a table of whole numbers by tool"),
        (
            "policy.calls_per_turn.web.search = 3",
            "line 1 is 'web'; expected a table of whole numbers by tool, its id",
        ),
        ("policy.calls_per_turn = {'web.search' = '3'}", "line 1, 'web.search' is '3'; expected a table of whole num"),
        ("policy.calls_per_turn = {'web.*' = 3}", "line 1 is 'web.*'; expected a table of whole numbers by tool"),
    ],
)
def test_what_cannot_be_taken_is_named_with_what_is_expected(toml: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_file(toml)
    assert words in str(caught.value)
    assert caught.value.code == "setting_invalid"


@pytest.mark.parametrize(
    ("word", "clean", "tainted"),
    [("approve", "ask", "ask"), ("approve_tainted", "allow", "ask"), ("allow", "allow", "allow")],
)
def test_how_much_of_what_cannot_be_undone_is_left_to_a_person_is_a_setting(
    word: str, clean: str, tainted: str
) -> None:
    toml = f"policy.irreversible = '{word}'"
    assert ruling(toml, "mail.send", "irreversible", "user").verdict == clean
    assert ruling(toml, "mail.send", "irreversible", "user", "web").verdict == tainted
    assert ruling(toml, "mail.read", "idempotent", "web").verdict == "allow"


def test_only_listed_tools_are_allowed_and_an_empty_list_allows_none() -> None:
    toml = "policy.tools = ['react.*', 'web.search']"
    said = [ruling(toml, tool_id).verdict for tool_id in ("react.read", "web.search", "web.fetch")]
    assert said == ["allow", "allow", "refuse"]
    assert ruling("policy.tools = []", "react.read").verdict == "refuse"
    assert policies_of("policy.tools = ['*', 'react.*']") == policies_of("")


def test_tools_are_listed_with_commas_where_there_is_only_text() -> None:
    settings = resolve_settings(TIMELOOM_POLICY_TOOLS=" react.*, web.search,", TIMELOOM_POLICY_ASK_BEFORE="web.search")
    assert settings.policy.tools == ("react.*", "web.search")
    assert settings.policy.ask_before == ("web.search",)


def test_a_person_is_asked_before_the_tools_that_are_named() -> None:
    toml = "policy = {irreversible = 'allow', ask_before = ['mail.*']}"
    assert ruling(toml, "mail.read").verdict == "ask"
    assert ruling(toml, "shop.buy", "irreversible").verdict == "allow"


def test_a_tool_is_called_as_often_as_the_table_says() -> None:
    toml = "[policy.calls_per_turn]\n'web.search' = 2\n'shop.buy' = 0"
    assert [ruling(toml, "web.search", calls_before=n).verdict for n in (1, 2)] == ["allow", "refuse"]
    assert ruling(toml, "shop.buy").verdict == "refuse"
    settings = resolve_settings(TIMELOOM_POLICY_CALLS_PER_TURN='{"web.search": 1}')
    assert settings.policy.calls_per_turn == {"web.search": 1}


def test_of_several_policies_each_has_its_say() -> None:
    toml = "policy = {tools = ['a.*'], ask_before = ['a.b'], calls_per_turn = {'a.b' = 1}}"
    assert policies_of(toml) == [
        "only_allowed_tools",
        "limited_calls",
        "irreversible_needs_approval",
        "unseen_address_needs_approval",
        "tools_that_need_approval",
    ]


def test_no_bundle_sets_what_an_operator_allows() -> None:
    assert [
        row.key for row in SETTING_SPECS if row.key.startswith(("budget.", "policy.")) and row.help.properties
    ] == []
    assert describe_expected(SPEC_BY_KEY["instructions_file"]) == "a path"
