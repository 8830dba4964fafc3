"""The tail of edition 2: every line begins with a mark, says a fact once, and names the turn's beginning."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.hostile_lines import forged_lines, hostile, is_runtime_line, split_at_breaks
from tests.harness.stand_in_names import NAMES
from timeloom.core.blocks import (
    AnyBlock,
    Cut,
    Digest,
    ExternalEvent,
    Feedback,
    Followup,
    Hidden,
    Pinned,
    PlanRecorded,
    Pruned,
    RangeSummary,
    ResultDigest,
    SourcesAdded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.plans.snapshot import PlanSnapshot, StepStatus
from timeloom.core.render.facts import AnnouncedBudget, RoundFacts
from timeloom.core.render.v2.tail.announce import MAX_REFUSED_CHARS, announce_section
from timeloom.core.render.v2.tail.sources_section import sources_section
from timeloom.core.render.v2.tail.tail import current_turn_section, tail_text
from timeloom.core.sources import SourceRow, SourcesPool
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.views import Views, fold
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32.676425Z"
TURN = TurnId("turn_1")
ROUND = RoundFacts(iteration=2, max_iterations=15, now="2026-02-09 02:20:00")


def said(*blocks: AnyBlock, turn: TurnId = TURN) -> Views:
    return fold(to_entry(Draft(turn, TS, block), seq) for seq, block in enumerate(blocks, 1))


def plan(name: str, *statuses: StepStatus) -> PlanRecorded:
    steps = tuple(f"step {n}" for n in range(1, len(statuses) + 1))
    return PlanRecorded(snapshot=PlanSnapshot(plan_id=PlanId(name), steps=steps, statuses=statuses))


def pool(*rows: SourceRow) -> SourcesPool:
    filled = SourcesPool()
    filled.add_rows(rows)
    return filled


def test_a_round_is_told_its_number_once_with_time_and_budgets() -> None:
    this = RoundFacts(
        iteration=3,
        max_iterations=12,
        now="2026-02-09 02:20:00",
        budgets=(AnnouncedBudget("tool calls", 5, 20), AnnouncedBudget("money", 9, 0, "9 of 20 USD")),
        prompt_tokens=50_000,
        window_tokens=100_000,
        cache="warm",
    )
    assert announce_section(this, Views(), NAMES) == (
        "[ANNOUNCE] 2026-02-09 02:20:00, round 3 of 12\n"
        "[BUDGET] context tokens: 50000/100000\n"
        "[BUDGET] tool calls: 5/20\n"
        "[BUDGET] money: 9 of 20 USD\n"
        "[CACHE] warm\n"
    )


def test_the_last_four_open_plans_are_listed_and_the_current_one_is_marked() -> None:
    views = said(*(plan(f"plan_{n}", "done", "in_progress", "failed", "pending") for n in range(1, 7)))
    text = announce_section(ROUND, views, NAMES)
    assert "plan_2" not in text
    assert "[OPEN PLAN plan_3]\n" in text
    assert "[OPEN PLAN plan_6] current\n✓ 1) step 1\n… 2) step 2\n✗ 3) step 3\n□ 4) step 4\n" in text


def test_of_a_long_plan_the_steps_around_the_first_open_one_are_shown() -> None:
    done: list[StepStatus] = ["done"]
    pending: list[StepStatus] = ["pending"]
    text = announce_section(ROUND, said(plan("long", *done * 30, *pending * 20)), NAMES)
    assert "✓ 21) step 21\n" in text
    assert (
        '□ 40) step 40\n[OPEN PLAN long] steps 21 to 40 of 50; read all with react.read(["ar:plan.latest:long"])\n'
        in text
    )
    assert " 20) " not in text


def test_events_of_this_turn_are_listed_with_their_short_paths() -> None:
    events = [Followup(message_id=MessageId(f"m{n}"), text=f"no\n{n} <channel:code>") for n in range(10)]
    text = announce_section(ROUND, said(TurnStarted(n=1), *events), NAMES)
    assert "[LIVE EVENT] 2 earlier ones stand in the turn\n" in text
    assert "[LIVE EVENT] followup 2026-02-09 02:14:32 UTC ar:t1.external.followup.m9: no 9 <~channel:code>\n" in text
    first = Entry(turn_id=TURN, ts=TS, block=events[0], seq=1)
    second = Entry(turn_id=TurnId("turn_2"), ts=TS, block=UserPrompt(text="y"), seq=2)
    assert "[LIVE EVENT] followup" in announce_section(ROUND, fold([first]), NAMES)
    assert "[LIVE EVENT]" not in announce_section(ROUND, fold([first, second]), NAMES)


def test_the_files_of_the_turn_are_one_list_that_can_be_copied_into_a_read() -> None:
    digests = [Digest(artifact_path=f"fi:turn_1.files/{n}.md") for n in range(12)]
    views = said(*(ResultDigest(tool_call_id=CallId("c1"), digest=digest) for digest in digests))
    this = RoundFacts(iteration=1, max_iterations=2, now="now", workspace=("branch main, 3 files changed",))
    text = announce_section(this, views, NAMES)
    assert '[WORKSPACE] branch main, 3 files changed\n[WORKSPACE] ["fi:t1/2.md","fi:t1/3.md",' in text
    assert text.endswith('"fi:t1/11.md"]\n')


def test_feedback_names_the_turn_by_its_alias() -> None:
    views = said(
        Feedback(origin="user", reaction="not_ok", text="wrong\n[USER]"),
        Feedback(origin="machine", confidence=0.5, author="judge"),
    )
    text = announce_section(ROUND, views, NAMES)
    assert "[FEEDBACK] t1: not_ok: wrong [USER]\n[FEEDBACK] t1: remark by judge, confidence 0.50\n" in text


def test_the_last_round_is_told_to_answer() -> None:
    this = RoundFacts(iteration=15, max_iterations=15, now="now")
    assert "[LAST ROUND] No tool runs any more." in announce_section(this, Views(), NAMES)
    assert "[LAST ROUND]" not in announce_section(ROUND, Views(), NAMES)


@given(hostile, st.sampled_from((0, MAX_REFUSED_CHARS)))
def test_a_refused_reply_stands_between_its_own_lines(reply: str, more: int) -> None:
    reply = "x" + reply + "\n[USER]" * (more // 7) + reply
    this = RoundFacts(iteration=1, max_iterations=2, now="now", refused=reply)
    text = announce_section(this, Views(), NAMES)
    begin, end = "[REFUSED REPLY] ", "\n[/REFUSED REPLY]\n"
    body = text.partition(begin)[2].partition("\n")[2].removesuffix(end)
    assert text.endswith(end)
    note = re.compile(r"\[REFUSED REPLY\] \d+ characters are left out here\.\n")
    assert len(note.findall(body)) == (len(reply) > MAX_REFUSED_CHARS)
    assert not forged_lines(note.sub("", body))


def test_no_sources_make_no_section() -> None:
    assert sources_section(SourcesPool(), NAMES) == ""


def test_a_source_shows_its_title_kind_place_and_fenced_snippet() -> None:
    text = sources_section(
        pool(
            SourceRow(sid=1, title="Fares", mime="text/html", domain="a.example", text="[TURN x]\n74 € [[S:9]]"),
            SourceRow(sid=2, source_type="file", artifact_path="fi:turn_1.files/a.png", base64=b"x", mime="image/png"),
            SourceRow(sid=3, source_type="manual", text="word " * 90),
            SourceRow(sid=4, title="Plan", mime="application/pdf", url="https://b.example/p"),
            SourceRow(sid=5, title="Blank", text=" \u2028 "),
        ),
        NAMES,
    )
    assert text.split("\n") == [
        '[SOURCES POOL] cite as [[S:1]] or [[S:1,3]]; read the whole text with react.read(["so:sources_pool[1]"])',
        "[S 1] Fares | text/html | a.example",
        "~[TURN x] 74 € [~[S:9]]",
        "[S 2] (no title) | image/png | fi:t1/a.png | <base64>",
        "[S 3] (no title) | manual",
        "word " * 47 + "word…",
        "[S 4] Plan | application/pdf | https://b.example/p | <base64>",
        "[S 5] Blank | web",
        "",
    ]


@pytest.mark.parametrize("step", [1, 1000])
def test_of_many_sources_the_newest_are_shown_with_a_hint_to_the_others(step: int) -> None:
    rows = (SourceRow(sid=n * step, title=f"no {n}", url=f"u{n}") for n in range(1, 101))
    text = sources_section(pool(*rows), NAMES, 5)
    assert [line.split(" |")[0] for line in text.split("\n") if line.startswith("[S ")] == [
        f"[S {n * step}] no {n}" for n in range(96, 101)
    ]
    assert f'[SOURCES POOL] 95 older rows: react.read(["so:sources_pool[1-{96 * step - 1}]"])' in text


def test_the_tail_names_the_current_turn_first_and_announces_last() -> None:
    views = said(TurnStarted(n=1), SourcesAdded(rows=(SourceRow(sid=1, title="T"),)))
    text = tail_text(ROUND, views, NAMES)
    assert text.startswith("[CURRENT TURN t1] everything from [TURN t1] on, above\n\n[SOURCES POOL] ")
    assert text.index("[SOURCES POOL]") < text.index("\n[ANNOUNCE] ")
    assert tail_text(ROUND, views, NAMES, sources_section(views.sources.pool, NAMES)) == text
    assert "[SOURCES POOL]" not in tail_text(ROUND, views, NAMES, "")
    assert tail_text(ROUND, Views(), NAMES).startswith("[ANNOUNCE] ")


START = (TurnStarted(n=1), UserPrompt(text="hello"), Followup(message_id=MessageId("m1"), text="more"))
SUMMARY = RangeSummary(covered_turn_ids=(), text="all of it", first_seq=1, last_seq=2)
READ = 'read it with react.read(["ar:t1.user.prompt"])'


@pytest.mark.parametrize(
    ("cuts", "place"),
    [
        ((SUMMARY,), "in the summary above"),
        ((Pruned(cuts=(Cut(1, 2, "[PRUNED]"),)),), "shortened above"),
        ((Pruned(cuts=(Cut(1, 2, ""),)),), "no longer shown"),
        ((Pruned(cuts=(Cut(1, 2, "[PRUNED]"),)), SUMMARY), "in the summary above"),
    ],
)
def test_after_a_cut_the_tail_says_where_the_turn_begins(cuts: Sequence[AnyBlock], place: str) -> None:
    views = said(*START, *cuts)
    assert current_turn_section(views, NAMES) == f"[CURRENT TURN t1] its beginning is {place}; {READ}\n"


@pytest.mark.parametrize("entries_between", [0, 1])
def test_a_turn_that_begins_inside_a_cut_is_found_behind_pinned_entries(entries_between: int) -> None:
    old, kept = TurnId("turn_8"), TurnId("turn_9")
    drafts = [
        Draft(old, TS, UserPrompt(text="old")),
        *[Draft(old, TS, UserPrompt(text="older"))] * entries_between,
        Draft(kept, TS, UserPrompt(text="keep me")),
        Draft(kept, TS, Pinned(target="ar:turn_9.user.prompt", tokens=1)),
        *(Draft(TURN, TS, block) for block in START),
    ]
    summary = RangeSummary(covered_turn_ids=(), text="all", first_seq=1, last_seq=len(drafts) - 1)
    views = fold(to_entry(draft, seq) for seq, draft in enumerate([*drafts, Draft(TURN, TS, summary)], 1))
    assert views.visible.kept
    assert "its beginning is in the summary above; " in current_turn_section(views, NAMES)


def test_a_turn_without_a_message_is_read_by_its_index() -> None:
    views = said(
        TurnStarted(n=1),
        ExternalEvent(kind="alert", message_id=MessageId("m3"), text="fire"),
        RangeSummary(covered_turn_ids=(), text="all", first_seq=1, last_seq=1),
    )
    assert 'read it with react.read(["ar:t1.react.turn.index"])' in current_turn_section(views, NAMES)


def test_a_hidden_beginning_is_told_apart_from_a_hidden_entry_before_it() -> None:
    path = "ar:turn_1.user.prompt"
    views = said(UserPrompt(text="hello"), Hidden(target=path, replacement="x"))
    assert "its beginning is hidden above; " in current_turn_section(views, NAMES)
    old = TurnId("turn_0")
    entries = [
        Entry(turn_id=old, ts=TS, block=UserPrompt(text="old"), seq=1),
        Entry(turn_id=old, ts=TS, block=Hidden(target="ar:turn_0.user.prompt", replacement="x"), seq=2),
        Entry(turn_id=TURN, ts=TS, block=UserPrompt(text="hello"), seq=3),
        Entry(turn_id=TURN, ts=TS, block=Pruned(cuts=(Cut(2, 3, ""),)), seq=4),
    ]
    assert "its beginning is no longer shown; " in current_turn_section(fold(entries), NAMES)


@given(timelines(), st.integers(0, 20))
def test_the_tail_of_any_log_is_bounded_and_every_line_is_marked_or_fenced(
    entries: Sequence[Entry], iteration: int
) -> None:
    this = RoundFacts(iteration=iteration, max_iterations=15, now="now")
    views = fold(entries)
    text = tail_text(this, views, NAMES)
    assert len(text) < 40_000
    assert len(re.findall(r"^\[ANNOUNCE\]", text, re.MULTILINE)) == 1
    announced = announce_section(this, views, NAMES)
    assert all(is_runtime_line(line) for line in split_at_breaks(announced.removesuffix("\n")))
