"""Blocks and prompts of plans, refusals, tool results, messages during a turn, and a whole turn."""

import pytest

from tests.golden.example_harness import SEARCH, ExampleHarness, NumberedIds, UploadedFile
from tests.harness.replies import answers, calls, decision_reply
from timeloom.core.blocks import PlansCompacted
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.view.plans import make_skeletons
from timeloom.tools.define import tool

pytestmark = pytest.mark.anyio

STEPS = ["collect metrics", "compare trends", "draft answer"]
NEW = calls("react.plan", mode="new", steps=STEPS)
OTHER = calls("react.plan", mode="new", steps=["book a table"])
LOOK = calls("react.rg", name="nothing")
PLANS = "[OPEN PLANS]"


# --- react.plan ------------------------------------------------------------------------------------------------


async def test_a_plan_is_opened(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(NEW, answers())
    await talk.run_turn("how are we doing?")
    await talk.assert_matches("plan_new", PLANS)


async def test_steps_are_acknowledged_by_marks_in_the_notes(stage: ExampleHarness) -> None:
    marks = calls("react.rg", "✓ 1. Locate sources\n… 2. Draft report — in progress", name="nothing")
    boxed = calls("react.rg", "✗ [2] no source has it\n✓ [7] there is none", name="nothing")
    plan = calls("react.plan", mode="new", steps=["Locate sources", "Draft report", "Answer"])
    talk = await stage.start_conversation(plan, marks, boxed, answers())
    await talk.run_turn("report, please")
    await talk.assert_matches("plan_marks", PLANS, first_round=2)


async def test_the_last_step_is_acknowledged_with_the_answer(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(OTHER, answers("Booked.", notes="✓ [1] booked"))
    await talk.run_turn("book a table")
    await talk.assert_matches("plan_completed", PLANS, whole=True)


async def test_marks_beside_a_change_of_plans_do_not_count(stage: ExampleHarness) -> None:
    close = calls("react.plan", "✓ [1] done", mode="close")
    talk = await stage.start_conversation(NEW, close, answers())
    await talk.run_turn("how are we doing?")
    await talk.assert_matches("plan_marks_in_lifecycle_round", first_round=2)


async def test_a_plan_is_replaced(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(NEW, calls("react.plan", mode="replace", steps=["ask the user"]), answers())
    await talk.run_turn("how are we doing?")
    await talk.assert_matches("plan_replace", PLANS, first_round=2)


async def test_an_older_plan_is_activated_in_a_later_turn(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(NEW, OTHER, answers(), "", answers())
    await talk.run_turn("how are we doing?")
    first = next(iter(talk.turns.session.views.plans.lineages))
    talk.model.replies[3] = calls("react.plan", mode="activate", plan_id=first)
    await talk.run_turn("go on with the metrics")
    await talk.assert_matches("plan_activate", PLANS)


async def test_a_plan_is_closed(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(NEW, calls("react.plan", mode="close"), LOOK, answers())
    await talk.run_turn("how are we doing?")
    await talk.assert_matches("plan_close", first_round=2)


async def test_the_newest_snapshot_of_a_plan_is_read_by_its_alias(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(NEW, calls("react.rg", "✓ [1]", name="nothing"), answers(), "", answers())
    await talk.run_turn("how are we doing?")
    plan = talk.turns.session.views.plans.current
    talk.model.replies[3] = calls("react.read", paths=[f"ar:plan.latest:{plan}"])
    await talk.run_turn("what was the plan?")
    await talk.assert_matches("plan_latest")


async def test_what_is_left_of_plans_in_a_compacted_history(stage: ExampleHarness) -> None:
    marks = calls("react.rg", "✓ [1]\n… [2]", name="nothing")
    talk = await stage.start_conversation(NEW, marks, answers(), LOOK, answers())
    await talk.run_turn("how are we doing?")
    session = talk.turns.session
    # Whoever sums up history writes this block.
    history = PlansCompacted(plans=make_skeletons(session.views.plans, 1, session.views.tail))
    talk.model.callbacks[4] = lambda: session.append([history], talk.turn)
    await talk.run_turn("and now?")
    await talk.assert_matches("plan_history")


# --- what is refused -------------------------------------------------------------------------------------------

CODE = "<channel:code>print(1)</channel:code>"
WRITES = calls("react.write", path="files/a.md", content="the first of two texts")
REFUSED = {
    "decision_malformed": decision_reply({"action": "call_tool", "tool_call": {"params": {}}}),
    "decision_missing": "<channel:thinking>What now?</channel:thinking>",
    "decision_cut": '<channel:ReactDecisionOutV2>{"action": "comp',
    "channel_unclosed": f"<channel:thinking>Look first.\n{LOOK}",
    "text_outside_channels": f"Sure, I look. {LOOK}",
    "undeclared_channel": f"<channel:poem>o table</channel:poem>{LOOK}",
    "several_actions": f"{LOOK}{calls('react.read', paths=['files/b.md'])}",
    "code_without_exec": f"{LOOK}{CODE}",
    "code_missing": calls("exec_tools.execute_code_python", contract=[]),
    "unknown_tool": calls("react.reed", paths=["files/a.md"]),
    "params_invalid": calls("react.read", path="files/a.md"),
    "param_ref_not_visible": calls("react.write", path="files/a.md", content="ref:fi:turn_9.files/none.md"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_cannot_be_carried_out_is_told(stage: ExampleHarness, name: str) -> None:
    talk = await stage.start_conversation(REFUSED[name], answers())
    await talk.run_turn("go")
    await talk.assert_matches(f"refused_{name}")


async def test_a_tool_in_the_last_round_is_told(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(LOOK, answers(), limits=TurnLimits(max_iterations=1))
    await talk.run_turn("go")
    await talk.assert_matches("refused_last_round", "[LAST ROUND]")


async def test_actions_that_may_not_share_a_round_are_told(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(WRITES + WRITES, answers(), limits=TurnLimits(fanout="safe_fanout"))
    await talk.run_turn("go")
    await talk.assert_matches("refused_fanout")


# --- what tools return -----------------------------------------------------------------------------------------


@tool("shop.prices", effect="pure")
async def prices(place: str) -> dict[str, object]:
    """Prices of a place, in the envelope that tools return."""
    if place == "Schwebe":
        return {"ok": True, "error": None, "ret": {"place": place, "main_course_eur": 31}}
    error = {"code": "not_listed", "message": f"{place} is not listed", "where": "prices", "managed": True}
    return {"ok": False, "error": error, "ret": {"nearest": ["Schwebe"]}}


@tool("shop.menu", effect="pure")
async def menu(place: str) -> list[str]:
    """Breaks."""
    raise LookupError(f"no menu of {place}")


@tool("shop.dishes", effect="pure")
async def dishes() -> dict[str, object]:
    """Many dishes, each with a long description."""
    rows = [{"dish": f"No. {n}", "vegan": n % 2 == 0, "text": "very good " * 150} for n in range(1, 21)]
    return {"ok": True, "error": None, "ret": {"place": "Schwebe", "dishes": rows}}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("result_of_an_envelope", calls("shop.prices", place="Schwebe")),
        ("error_in_an_envelope", calls("shop.prices", place="Diner")),
        ("error_of_a_tool", calls("shop.menu", place="Diner")),
        ("large_result", calls("shop.dishes")),
        ("search", SEARCH),
    ],
)
async def test_what_a_tool_returns(stage: ExampleHarness, name: str, call: str) -> None:
    stage.tools.extend([prices, menu, dishes])
    talk = await stage.start_conversation(call, answers())
    await talk.run_turn("what does it cost?")
    await talk.assert_matches(name)


async def test_a_parameter_that_refers_to_something_in_sight(stage: ExampleHarness) -> None:
    ids = NumberedIds()
    talk = await stage.start_conversation("", answers(), ids=ids)
    prompt = "ref:ar:turn_1770603271112_000002.user.prompt"
    talk.model.replies[0] = calls("react.write", path="files/wish.md", content=prompt)
    await talk.run_turn("a table for four, by the window")
    await talk.assert_matches("param_ref")


# --- several actions, and what arrives meanwhile ---------------------------------------------------------------


async def test_two_calls_share_a_round(stage: ExampleHarness) -> None:
    both = calls("react.write", "Writing it down.", path="files/a.md", content="a table for four") + SEARCH
    talk = await stage.start_conversation(
        f"<channel:thinking>Both.</channel:thinking>{both}", answers(), limits=TurnLimits(fanout="safe_fanout")
    )
    await talk.run_turn("go")
    await talk.assert_matches("fanout", whole=True)


EVENTS = "[LIVE TURN EVENTS]"


async def test_a_follow_up_in_an_open_round_leads_to_a_second_answer(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(answers("Schwebe."), answers("Schwebe, which has a vegan menu too."))
    talk.model.callbacks[1] = lambda: talk.turns.inbox.follow_up("and it should be vegan")
    await talk.run_turn("where do we eat?")
    await talk.assert_matches("followup", EVENTS, whole=True)


async def test_a_steer_cuts_a_round_short(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(SEARCH, answers("The Diner, then."), answers("The Diner, then."))
    talk.model.truncated.add(1)
    talk.model.callbacks[1] = lambda: talk.turns.inbox.steer("no fish, please")
    await talk.run_turn("where do we eat?")
    await talk.assert_matches("steer", EVENTS, whole=True)


async def test_a_steer_without_words_stops_the_turn(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(SEARCH, answers())
    talk.model.truncated.add(1)
    talk.model.callbacks[1] = talk.turns.inbox.steer
    await talk.run_turn("where do we eat?")
    await talk.assert_matches("stop", whole=True)


# --- a turn as a whole -----------------------------------------------------------------------------------------


async def test_a_turn_as_a_whole(stage: ExampleHarness) -> None:
    bits = (1, int("2yz1lp", 36), 0x0F1A5C03D2E4, 0x18F62649FB3B, 0x52C0FFEE0B0E, 0x6A3F1E0D9B21, 0x7D4E2A9C8F30)
    draft = "turn_1770603271112_2yz1lp/files/draft.md"
    diff = "@@ -1,2 +1,3 @@\n # Places\n \n+1. Schwebe [[S:1]]\n"
    note = "[D] decided to use Wanderlog + TheFork as primary sources"
    steps = ["Search top restaurants", "Cross‑check ratings", "Draft ranked list"]
    talk = await stage.start_conversation(
        calls("react.plan", mode="new", steps=steps),
        SEARCH,
        calls("react.write", "✓ [1]", path="files/draft.md", content="# Places\n\n", kind="display"),
        calls("react.patch", path=draft, patch=diff),
        calls("react.write", path="files/anchor.md", content=note, channel="internal", scratchpad=True),
        answers("Schwebe [[S:1]].", notes="✓ [2]\n✓ [3]", summary="Goal: a place to eat. Outcome: Schwebe."),
        ids=NumberedIds(bits),
    )
    pdf = UploadedFile("menu.pdf", "application/pdf", b"%PDF-1.7 a menu", "2‑page menu, prices & address (Wuppertal)")
    await talk.run_turn("could you find top 3 places to eat here in wuppertal", pdf)
    await talk.assert_matches("whole_turn", "SOURCES POOL", PLANS, "[WORKSPACE]", whole=True)
