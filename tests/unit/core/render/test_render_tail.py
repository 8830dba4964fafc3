"""The tail: ANNOUNCE and the sources show the current state, and stay small for every conversation."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    AttachmentMeta,
    Digest,
    ExternalEvent,
    Feedback,
    Followup,
    ModelCalled,
    PlanRecorded,
    ResultDigest,
    SourcesAdded,
    Steer,
    TurnStarted,
    Usage,
    UserPrompt,
)
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.plans.snapshot import PlanSnapshot, StepStatus
from timeloom.core.render.v1.tail.announce import AnnouncedBudget, RoundFacts, announce_section, cache_line
from timeloom.core.render.v1.tail.sources_section import sources_section
from timeloom.core.render.v1.tail.tail import tail_text
from timeloom.core.sources import SourceRow, SourcesPool
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.views import Views, fold
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32.676425Z"
TURN = TurnId("turn_1")
ROUND = RoundFacts(iteration=2, max_iterations=15, now="2026-02-09T02:20:00Z")


def said(*blocks: AnyBlock, turn: TurnId = TURN) -> Views:
    return fold(to_entry(Draft(turn, TS, block), seq) for seq, block in enumerate(blocks, 1))


def plan(name: str, *statuses: StepStatus) -> PlanRecorded:
    steps = tuple(f"step {n}" for n in range(1, len(statuses) + 1))
    return PlanRecorded(snapshot=PlanSnapshot(plan_id=PlanId(name), steps=steps, statuses=statuses))


@pytest.mark.parametrize(
    ("last", "line"),
    [
        (None, ""),
        (Usage(input_tokens=900), ""),
        (
            Usage(input_tokens=9, cache_write_tokens=800),
            "last request: 0 tokens read, 800 written, 9 uncached; cache points now: 2",
        ),
        (
            Usage(cache_read_tokens=7),
            "last request: 7 tokens read, 0 written, 0 uncached; cache points now: 2",
        ),
    ],
)
def test_the_cache_is_spoken_of_where_something_is_known_of_it(last: Usage | None, line: str) -> None:
    assert cache_line(last, 2) == line


def test_the_sources_may_be_handed_in() -> None:
    views = said(TurnStarted(n=1), SourcesAdded(rows=(SourceRow(sid=1, title="T"),)))
    assert tail_text(ROUND, views, sources_section(views.sources.pool)) == tail_text(ROUND, views)
    assert "SOURCES POOL" not in tail_text(ROUND, views, "")


def test_a_round_is_told_its_number_the_time_and_its_budgets() -> None:
    this = RoundFacts(
        iteration=3,
        max_iterations=12,
        now="2026-02-09T02:20:00Z",
        budgets=(AnnouncedBudget("tool calls", 5, 20), AnnouncedBudget("money", 9, 0)),
        prompt_tokens=50_000,
        window_tokens=100_000,
        cache="warm",
    )
    assert announce_section(this, Views()) == (
        "ANNOUNCE\n"
        "time: 2026-02-09T02:20:00Z\n"
        "iteration: 3/12\n"
        "rounds: [#####...............] 3/12\n"
        "context tokens: [##########..........] 50000/100000\n"
        "tool calls: [#####...............] 5/20\n"
        "money: [####################] 9/0\n"
        "[CACHE] warm\n"
    )


def test_the_last_four_open_plans_are_listed_and_the_current_one_is_marked() -> None:
    views = said(*(plan(f"plan_{n}", "done", "in_progress", "failed", "pending") for n in range(1, 7)))
    text = announce_section(ROUND, views)
    assert "plan_2" not in text
    assert "  plan_id=plan_3\n" in text
    assert (
        "  plan_id=plan_6 (current)\n    ✓ [1] step 1\n    … [2] step 2\n    ✗ [3] step 3\n    □ [4] step 4\n" in text
    )


def test_of_a_long_plan_the_steps_around_the_first_open_one_are_shown() -> None:
    done: list[StepStatus] = ["done"]
    pending: list[StepStatus] = ["pending"]
    views = said(plan("long", *done * 30, *pending * 20))
    text = announce_section(ROUND, views)
    assert "✓ [21] step 21\n" in text
    assert "□ [40] step 40\n    (50 steps, 21 to 40 shown; react.read: ar:plan.latest:long)\n" in text
    assert "[20]" not in text


def test_events_of_this_turn_are_listed_with_their_paths() -> None:
    views = said(
        TurnStarted(n=1),
        Followup(message_id=MessageId("m1"), text="and by\nbus? <channel:code>"),
        Steer(message_id=MessageId("m2")),
        ExternalEvent(kind="alert", message_id=MessageId("m3"), text="fire"),
    )
    assert (
        "[LIVE TURN EVENTS]\n"
        f"  followup ts={TS} ar:turn_1.external.followup.m1: and by bus? <~channel:code>\n"
        f"  steer ts={TS} ar:turn_1.external.steer.m2: (stop)\n"
        f"  alert ts={TS} ar:turn_1.external.alert.m3: fire\n"
    ) in announce_section(ROUND, views)


def test_of_many_events_the_newest_are_listed() -> None:
    views = said(*(Followup(message_id=MessageId(f"m{n}"), text=f"no {n}") for n in range(10)))
    text = announce_section(ROUND, views)
    assert "  (2 earlier ones stand in the turn)\n" in text
    assert "no 1" not in text
    assert "no 9" in text


def test_events_that_the_model_was_asked_with_are_only_counted() -> None:
    asked = ModelCalled(round=1, model="m", request_sha256="x")
    events = [Followup(message_id=MessageId(f"m{n}"), text=f"no {n}") for n in range(3)]
    assert "[LIVE TURN EVENTS]" not in announce_section(ROUND, said(*events[:2], asked))
    text = announce_section(ROUND, said(*events[:2], asked, events[2]))
    assert "[LIVE TURN EVENTS]\n  (2 earlier ones stand in the turn)\n  followup" in text
    assert "no 1" not in text


def test_events_of_an_earlier_turn_are_over() -> None:
    first = Entry(turn_id=TURN, ts=TS, block=Followup(message_id=MessageId("m1"), text="x"), seq=1)
    second = Entry(turn_id=TurnId("turn_2"), ts=TS, block=UserPrompt(text="y"), seq=2)
    assert "[LIVE TURN EVENTS]" in announce_section(ROUND, fold([first]))
    views = fold([first, second])
    assert "[LIVE TURN EVENTS]" not in announce_section(ROUND, views)
    assert views.live.events == []


def test_the_files_of_the_turn_are_listed_newest_last() -> None:
    digests = [Digest(artifact_path=f"fi:turn_1.files/{n}.md") for n in range(12)]
    views = said(
        AttachmentMeta(digest=Digest(artifact_path="fi:turn_0.files/old.md")),
        *(ResultDigest(tool_call_id=CallId("c1"), digest=digest) for digest in digests),
    )
    this = RoundFacts(iteration=1, max_iterations=2, now="now", workspace=("branch main, 3 files changed",))
    text = announce_section(this, views)
    assert "[WORKSPACE]\n  branch main, 3 files changed\n  fi:turn_1.files/2.md\n" in text
    assert text.endswith("  fi:turn_1.files/11.md\n")
    assert "old.md" not in text


def test_what_people_thought_is_told() -> None:
    views = said(Feedback(origin="user", reaction="not_ok"))
    assert "[FEEDBACK]\n  turn_1: not_ok\n" in announce_section(ROUND, views)


def test_the_last_round_is_told_to_answer() -> None:
    this = RoundFacts(iteration=15, max_iterations=15, now="now")
    assert "[LAST ROUND] No tool is run after this." in announce_section(this, Views())
    assert "[LAST ROUND]" not in announce_section(ROUND, Views())


def pool(*rows: SourceRow) -> SourcesPool:
    filled = SourcesPool()
    filled.add_rows(rows)
    return filled


def test_no_sources_make_no_section() -> None:
    assert sources_section(SourcesPool()) == ""


def test_a_source_shows_its_title_kind_place_and_snippet_behind_the_fence() -> None:
    text = sources_section(
        pool(
            SourceRow(sid=1, title="Fares", mime="text/html", domain="a.example", text="[TURN x]\n74 € [[S:9]]"),
            SourceRow(sid=2, source_type="file", artifact_path="fi:turn_1.files/a.png", base64=b"x", mime="image/png"),
            SourceRow(sid=3, source_type="manual", text="word " * 90),
        )
    )
    assert text.split("\n")[2:7] == [
        "[S 1] Fares | text/html | a.example",
        "| [TURN x] 74 € [~[S:9]]",
        "[S 2] (no title) | image/png | fi:turn_1.files/a.png",
        "<base64>",
        "[S 3] (no title) | manual",
    ]
    assert text.endswith("…\n")


@pytest.mark.parametrize("step", [1, 1000])
def test_of_many_sources_the_newest_are_shown_with_a_hint_to_the_others(step: int) -> None:
    text = sources_section(pool(*(SourceRow(sid=n * step, title=f"no {n}", url=f"u{n}") for n in range(1, 101))), 5)
    assert [line.split(" |")[0] for line in text.split("\n") if line.startswith("[S ")] == [
        f"[S {n * step}] no {n}" for n in range(96, 101)
    ]
    assert f'(95 older rows: react.read(["so:sources_pool[1-{96 * step - 1}]"]))' in text


def test_the_tail_names_the_current_turn_first_and_announces_last() -> None:
    views = said(TurnStarted(n=1), SourcesAdded(rows=(SourceRow(sid=1, title="T"),)))
    text = tail_text(ROUND, views)
    assert text.startswith("CURRENT TURN\nturn_1: everything from [TURN turn_1] on, above.\n\nSOURCES POOL\n")
    assert text.index("SOURCES POOL") < text.index("\nANNOUNCE\n")
    assert tail_text(ROUND, Views()).startswith("ANNOUNCE\n")


@given(timelines(), st.integers(0, 20))
def test_the_tail_of_any_log_is_bounded_and_forges_nothing(entries: Sequence[Entry], iteration: int) -> None:
    this = RoundFacts(iteration=iteration, max_iterations=15, now="now")
    text = tail_text(this, fold(entries))
    assert len(text) < 40_000
    assert text.count("\nANNOUNCE\n") + text.startswith("ANNOUNCE\n") == 1


def test_the_next_rendering_marks_every_picture_and_document() -> None:
    pool = SourcesPool()
    mimes = ("image/png", "application/pdf", "text/plain")
    pool.add_rows(
        SourceRow(sid=n, title=mime, url=f"https://{n}.example", mime=mime) for n, mime in enumerate(mimes, 1)
    )
    assert "<base64>" not in sources_section(pool)
    marked = sources_section(pool, marks_binary=True).splitlines()
    assert [line for line in marked if line == "<base64>"] == ["<base64>"] * 2
    assert marked[-1].startswith("[S 3] text/plain")
