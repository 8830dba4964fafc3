"""Erased blocks keep no text, and blocks derived from erased ones are found by their origin."""

from collections.abc import Sequence
from typing import cast

import msgspec
import pytest
from hypothesis import given

from timeloom.core.blocks import (
    AnyBlock,
    ApprovalRequested,
    Attachment,
    CompactionEnded,
    CompactionRequested,
    Completion,
    ConversationStarted,
    Cut,
    Digest,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Note,
    Notes,
    Notice,
    PlanAcknowledged,
    PlanRecorded,
    PlansCompacted,
    PlanSkeleton,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    Thinking,
    Titled,
    ToolCall,
    ToolCode,
    ToolTraits,
    TurnStarted,
    Unknown,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.blocks.caching import CacheForecast, CachePoint
from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.blocks.redact import format_entry_paths, redact_block
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.policy.erase.spread import EraseTargets, find_entries_to_erase, redact_entry
from timeloom.core.policy.erase.written_by_calls import add_written_entries
from timeloom.core.render.v1.entries.block_text import entry_text
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.testing.samples import SAMPLE_BLOCKS, SAMPLE_HEADER
from timeloom.testing.strategies import blocks
from timeloom.wire.block_json import decode_block, encode_block
from timeloom.wire.record import decode_record, encode_record

TURN, TS = TurnId("turn_1"), "2026-02-09T02:14:32Z"
ONE, TWO = CallId("c1"), CallId("c2")
FILE = f"fi:{TURN}.files/a.md"

NAMES = (
    "type author mime tool_call_id tool_id message_id kind artifact_path physical_path visibility channel target model",
    "stop_reason error code plan_id created_ts last_ts closed_ts superseded_ts origin_turn_id last_turn_id change",
    "statuses snapshot_ref covered_turn_ids reason policy verdict by origin reaction started_ts source_type at",
    "lifetime purpose foreign_type foreign_path how given_ts outcome",
)
KEPT = frozenset(" ".join(NAMES).split())
"""Fields that only name, count or classify; content of other fields must not survive an erasure."""


def marked(value: object, name: str = "") -> object:
    """The value with a mark in every text that is not just a name."""
    match value:
        case dict():
            return {key: marked(inner, key) for key, inner in cast("dict[str, object]", value).items()}
        case list() | tuple():
            return [marked(inner, name) for inner in cast("Sequence[object]", value)]
        case str() if name in ("params", "json", "extra"):
            return value[:-1] + (', "x": "MARK"}' if len(value) > 2 else '"x": "MARK"}')
        case str() if name not in KEPT:
            return value + "MARK"
        case _:
            return value


@pytest.mark.parametrize("block", SAMPLE_BLOCKS, ids=lambda block: type(block).__name__)
def test_nothing_that_a_block_said_is_left_of_it(block: AnyBlock) -> None:
    if redact_block(block) is block:
        return
    fields: object = msgspec.to_builtins(block, builtin_types=(bytes,))
    said = msgspec.convert(marked(fields), type(block), builtin_types=(bytes,))
    after = redact_block(said)
    assert b"MARK" not in msgspec.json.encode(after)
    assert (after.erased, after.type_name, find_blob_refs(after)) == (True, block.type_name, ())
    assert (after.path(TURN), after.alias(TURN)) == (block.path(TURN), block.alias(TURN))
    assert redact_block(after) == after


@given(blocks)
def test_an_erased_block_is_stored_and_read_like_any_other(block: AnyBlock) -> None:
    entry = to_entry(Draft(TURN, TS, redact_block(block)), 7)
    assert decode_record(encode_record(entry), 7) == entry
    read = decode_block(encode_block(entry), TS)
    assert read.block == entry.block or isinstance(entry.block, Unknown)


def test_whose_a_conversation_is_and_numbers_stay() -> None:
    for block in (SAMPLE_HEADER, TurnStarted(n=1)):
        assert redact_block(block) is block


def test_where_many_entries_are_read_takes_several_paths() -> None:
    assert format_entry_paths(2, 3) == "ar:log[2-3]"
    assert format_entry_paths(2, 1200) == "ar:log[2-501], ar:log[502-1001], ar:log[1002-1200]"
    summary = RangeSummary(covered_turn_ids=(TURN, TurnId("turn_2")), text="x")
    assert getattr(redact_block(summary), "text", "") == (
        "[ERASED] react.read: ar:turn_1.react.turn.index, ar:turn_2.react.turn.index"
    )


def test_a_call_keeps_the_hashes_of_what_came_before() -> None:
    points = (CachePoint(seq=2, blocks=1, tokens=9, prefix="a"), CachePoint(seq=5, blocks=2, tokens=99, prefix="b"))
    cache = CacheForecast(at=TS, system="s", points=points, hit=points[0])
    entry = to_entry(Draft(TURN, TS, ModelCalled(round=1, model="m", request_sha256="h", tail="t", cache=cache)), 9)
    after = redact_entry(entry, EraseTargets(frozenset({4})), (4, 9)).block
    assert isinstance(after, ModelCalled) and after.cache and after.cache.hit
    assert (after.request_sha256, after.tail) == ("erased", "")
    assert ([point.prefix for point in after.cache.points], after.cache.hit.prefix) == (["a", ""], "a")


def log(*said: AnyBlock | tuple[TurnId, AnyBlock]) -> list[Entry]:
    """A header and these blocks."""
    drafts = [Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))]
    for one in said:
        turn, block = one if isinstance(one, tuple) else (TURN, one)
        drafts.append(Draft(turn, TS, block))
    return [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]


def asked(n: int) -> tuple[ModelCalled, ModelAnswered]:
    return ModelCalled(round=n, model="m", request_sha256="h"), ModelAnswered(round=n, model="m", stop_reason="end")


def taken(entries: Sequence[Entry], *seqs: int, sids: Sequence[int] = ()) -> dict[int, str]:
    return {**find_entries_to_erase(entries, EraseTargets(frozenset(seqs), frozenset(sids)))}


def test_a_message_takes_with_it_the_requests_that_showed_it() -> None:
    entries = log(*asked(1), UserPrompt(text="x"), *asked(2), Pruned(cuts=(Cut(4, 4),)), *asked(3))
    assert taken(entries, 4) == {4: "named", 5: "request that showed it", 7: "stands in its place"}


def test_what_stands_in_its_place_was_shown_as_well() -> None:
    path = f"ar:{TURN}.user.prompt"
    hidden = Hidden(target=path, replacement="a secret")
    entries = log(UserPrompt(text="x"), hidden, *asked(1), Pruned(cuts=(Cut(2, 2, "card"),)), *asked(2))
    assert [seq for seq, why in taken(entries, 2).items() if why == "request that showed it"] == [4, 7]
    unseen = log(UserPrompt(text="x"), RangeSummary(covered_turn_ids=(TurnId("turn_9"),), text="nothing"), *asked(1))
    assert taken(unseen, 3) == {3: "named", 4: "request that showed it"}


def test_the_focus_of_a_compaction_goes_with_the_summary_that_it_led_to() -> None:
    compaction = ModelCalled(round=1, model="m", request_sha256="h", purpose="compaction")
    before = RangeSummary(covered_turn_ids=(), first_seq=2, last_seq=2, text="an earlier one")
    summary = RangeSummary(covered_turn_ids=(), first_seq=2, last_seq=3, text="sum", n=2)
    request, later = (CompactionRequested(message_id=MessageId(name), text="x") for name in ("r1", "r2"))
    ended = CompactionEnded(message_id=MessageId("r1"), outcome="completed")
    skipped = CompactionEnded(message_id=MessageId("r2"), outcome="skipped")
    entries = log(
        UserPrompt(text="y"), WorkingSummary(text="w"), before, request, compaction, summary, ended, later, skipped
    )
    assert taken(entries, 5) == {5: "named", 6: "sums it up", 7: "sums it up"}
    assert taken(entries, 9) == {9: "named"}


def test_a_compaction_that_a_tool_requested_goes_with_its_call() -> None:
    call = ToolCall(tool_id="x.y", tool_call_id=ONE, params='{"focus":"x"}')
    request = CompactionRequested(message_id=MessageId(ONE), text="x", author="react")
    entries = log(UserPrompt(text="y"), call, ResultStatus(tool_call_id=ONE, text="x"), request)
    assert set(taken(entries, 5)) >= {3, 4, 5}
    assert taken(entries, 3)[5] == "shows it again"


def test_summaries_titles_and_their_requests_go_too() -> None:
    title = [
        (NO_TURN, ModelCalled(round=1, model="m", request_sha256="h", purpose="title")),
        (NO_TURN, ModelAnswered(round=1, model="m", stop_reason="end", purpose="title")),
        (NO_TURN, Titled(text="About it")),
    ]
    compaction = ModelCalled(round=1, model="m", request_sha256="h", purpose="compaction")
    by_seqs = RangeSummary(covered_turn_ids=(), first_seq=2, last_seq=4, text="sum")
    by_turns = RangeSummary(covered_turn_ids=(TURN,), text="sum")
    entries = log(UserPrompt(text="x"), WorkingSummary(text="w"), *title, compaction, by_seqs, by_turns)
    found = taken(entries, 2)
    assert found == {
        2: "named",
        3: "sums it up",
        4: "request that showed it",
        5: "request that showed it",
        6: "title made from it",
        7: "sums it up",
        8: "sums it up",
        9: "sums it up",
    }


def test_an_answer_leads_back_to_its_reply_and_to_the_title_of_its_turn() -> None:
    entries = log(UserPrompt(text="x"), *asked(1), Thinking(round=1, text="t"), Completion(text="c"), Titled(text="T"))
    assert taken(entries, 5) == {5: "named", 4: "reply it came from"}
    assert taken(entries, 6)[7] == "title made from it"
    later = log(UserPrompt(text="x"), Titled(text="T"), (TurnId("turn_2"), UserPrompt(text="y")))
    assert taken(later, 4) == {4: "named"}
    assert taken(log(Completion(text="c")), 2) == {2: "named"}


def test_a_file_leads_back_to_what_wrote_it_and_on_to_what_read_it() -> None:
    digest = ResultDigest(tool_call_id=ONE, digest=Digest(artifact_path=FILE))
    entries = log(
        ToolCode(tool_call_id=ONE, text="code"),
        ToolCall(tool_id="react.write", tool_call_id=ONE),
        ApprovalRequested(tool_call_id=ONE, tool_id="react.write", text="may it?"),
        Notice(code="x", text="y", tool_call_id=ONE),
        Notice(code="x", text="y"),
        digest,
        ResultContent(tool_call_id=ONE, artifact_path=FILE, mime="text/plain", text="x"),
        ResultStatus(tool_call_id=ONE, text="written"),
        ToolCall(tool_id="react.read", tool_call_id=TWO),
        ResultContent(tool_call_id=TWO, artifact_path=FILE, mime="text/plain", text="x"),
        ResultContent(tool_call_id=TWO, artifact_path="ar:log[8]", mime="text/plain", text="x"),
        ResultContent(tool_call_id=TWO, artifact_path=f"ar:{TURN}.react.turn.index", mime="text/plain", text="x"),
        ResultContent(tool_call_id=TWO, artifact_path=f"ar:{TURN}.user.prompt", mime="text/plain", text="else"),
    )
    assert sorted(taken(entries, 8)) == [2, 3, 4, 5, 7, 8, 9, 11, 12, 13]


def test_a_result_that_is_no_file_leaves_its_call() -> None:
    path = f"tc:{TURN}.{ONE}.result"
    entries = log(
        ToolCall(tool_id="web_tools.web_search", tool_call_id=ONE),
        ResultContent(tool_call_id=ONE, artifact_path=path, mime="text/plain", text="x"),
        ResultContent(tool_call_id=TWO, artifact_path=FILE, mime="text/plain", text="of a call that is not here"),
    )
    assert taken(entries, 3) == {3: "named"}
    assert taken(entries, 4) == {4: "named"}


def test_notes_and_plans_lead_back_to_their_calls_and_to_each_other() -> None:
    plan = PlanSnapshot(plan_id=PlanId("p1"), steps=("a",), statuses=("pending",))
    call = ToolCall(tool_id="react.plan", tool_call_id=ONE)
    entries = log(
        call,
        PlanRecorded(snapshot=plan),
        PlanAcknowledged(round=1, text="✓ [1] a", plan_id=PlanId("p1")),
        PlanAcknowledged(round=2, text="no plan"),
        PlansCompacted(plans=(PlanSkeleton(plan, "ar:plan.latest:p1"),)),
        Pruned(cuts=(Cut(3, 3),)),
        *asked(1),
    )
    assert sorted(taken(entries, 3)) == [2, 3, 4, 6, 7, 8]
    noted = log(
        Notes(tool_call_id=ONE, text="n"), ToolCall(tool_id="x", tool_call_id=ONE), Note(tool_call_id=ONE, text="n")
    )
    assert taken(noted, 4) == {4: "named", 3: "call it came from"}


def test_a_source_is_erased_by_its_id_with_the_results_that_listed_it() -> None:
    rows = (SourceRow(sid=1, title="a"), SourceRow(sid=2, title="b"))
    entries = log(
        SourcesAdded(rows=rows, tool_call_id=ONE),
        ResultContent(tool_call_id=ONE, artifact_path=f"tc:{TURN}.{ONE}.result", mime="text/plain", text="list"),
        ToolCall(tool_id="react.read", tool_call_id=TWO),
        ResultContent(tool_call_id=TWO, artifact_path="so:sources_pool[1]", mime="text/plain", text="a"),
        ResultContent(tool_call_id=TWO, artifact_path="so:sources_pool[2]", mime="text/plain", text="b"),
        SourcesAdded(rows=(SourceRow(sid=3, title="c"),)),
        Pruned(cuts=(Cut(2, 7),)),
        *asked(1),
    )
    found = taken(entries, sids=[1])
    assert sorted(found) == [2, 3, 5, 8, 9]
    after = redact_entry(entries[1], EraseTargets(sids=frozenset({1})), sorted(found)).block
    assert isinstance(after, SourcesAdded)
    assert [row.title for row in after.rows] == ["[ERASED]", "b"]
    assert taken(entries, sids=[3]).keys() >= {7}


def test_an_attachment_is_no_work_of_a_call() -> None:
    path = f"fi:{TURN}.user.attachments/a.md"
    assert taken(log(Attachment(artifact_path=path, mime="text/plain", text="x")), 2) == {2: "named"}


def test_a_prompt_shows_the_mark_as_it_is() -> None:
    (_, entry) = log(redact_block(UserPrompt(text="x")))
    assert entry_text(entry).text == f"[USER MESSAGE]\n[path: ar:{TURN}.user.prompt]\n[ERASED]\n\n"
    (_, entry) = log(UserPrompt(text="[ERASED]\n[TURN turn_2] ts=now"))
    assert "\n[TURN" not in entry_text(entry).text


def test_only_the_cuts_that_stand_for_it_lose_their_text() -> None:
    entries = log(UserPrompt(text="x"), UserPrompt(text="y"), Pruned(cuts=(Cut(2, 2, "x"), Cut(3, 3, "y"))))
    after = redact_entry(entries[3], EraseTargets(frozenset({2})), (2, 4)).block
    assert after == Pruned(cuts=(Cut(2, 2, "[ERASED] react.read: ar:log[2]"), Cut(3, 3, "y")), erased=True)
    named = redact_entry(entries[3], EraseTargets(frozenset({4})), (4,)).block
    assert isinstance(named, Pruned) and named.cuts[1].text == "[ERASED] react.read: ar:log[3]"


def test_what_quotes_it_and_headers_that_are_named() -> None:
    entries = log(TurnStarted(n=1), UserPrompt(text="x"), UserPrompt(text="y"))
    found = find_entries_to_erase(entries, EraseTargets(frozenset({1, 2, 3})), quoting=[4])
    assert found == {3: "named", 4: "quotes it"}
    assert redact_entry(entries[2], EraseTargets(), ()).block == UserPrompt(text="[ERASED]", erased=True)


def test_what_stood_for_the_beginning_of_its_own_turn_names_the_index_of_that() -> None:
    entries = log(
        UserPrompt(text="x"),
        UserPrompt(text="y"),
        RangeSummary(covered_turn_ids=(), text="s", first_seq=2, last_seq=3),
        Pruned(cuts=(Cut(2, 2, "x"), Cut(3, 4, "y"))),
        (NO_TURN, RangeSummary(covered_turn_ids=(), text="s", first_seq=2, last_seq=3)),
    )
    after = [redact_entry(entry, EraseTargets(frozenset({2})), (2, 4, 5, 6)) for entry in entries[3:]]
    again = [redact_entry(entry, EraseTargets(frozenset({2})), (2, 4, 5, 6)) for entry in after]
    assert again == after
    summary, pruned, outside = [entry.block for entry in after]
    index = ", ar:turn_1.react.turn.index"
    assert isinstance(summary, RangeSummary) and summary.text == f"[ERASED] react.read: ar:log[2-3]{index}"
    assert isinstance(pruned, Pruned) and pruned.cuts[0].text == "[ERASED] react.read: ar:log[2]"
    assert pruned.cuts[1].text == f"[ERASED] react.read: ar:log[3-4]{index}"
    assert isinstance(outside, RangeSummary) and outside.text == "[ERASED] react.read: ar:log[2-3]"


def test_with_a_call_what_it_wrote_is_meant() -> None:
    def call(n: str, tool: str) -> ToolCall:
        return ToolCall(tool_id=tool, tool_call_id=CallId(n))

    def content(n: str, path: str) -> ResultContent:
        return ResultContent(tool_call_id=CallId(n), artifact_path=path, mime="text/plain", text="x")

    plan = PlanRecorded(snapshot=PlanSnapshot(plan_id=PlanId("p1"), steps=("a",), statuses=("pending",)))
    entries = log(
        call("1", "react.write"),
        content("1", FILE),
        Note(tool_call_id=CallId("1"), text="x"),
        content("1", "tc:turn_1.1.result"),
        call("2", "react.plan"),
        plan,
        call("3", "t.make"),
        content("3", FILE),
        plan,
    )
    assert add_written_entries(entries, frozenset({2})) == {2, 3, 4}
    assert add_written_entries(entries, frozenset({3})) == {3, 4}
    assert add_written_entries(entries, frozenset({4})) == {3, 4}
    assert add_written_entries(entries, frozenset({6})) == {6, 7}
    assert add_written_entries(entries, frozenset({9})) == {9}
    assert add_written_entries(entries, frozenset({7})) == {7}


def test_a_file_is_erased_with_the_call_of_an_own_tool_that_wrote_it() -> None:
    file = ResultContent(tool_call_id=ONE, artifact_path=FILE, mime="text/plain", text="x")
    for traits, found in ((ToolTraits(content_param="text"), {2, 3}), (ToolTraits(path_param="to"), {2})):
        entries = log(ToolCall(tool_id="notes.save", tool_call_id=ONE, traits=traits), file)
        assert add_written_entries(entries, frozenset({2})) == found


def test_a_file_is_erased_with_the_results_of_an_own_tool_that_read_it() -> None:
    written = ResultContent(tool_call_id=ONE, artifact_path=FILE, mime="text/plain", text="x")
    shown = ResultContent(tool_call_id=TWO, artifact_path=FILE, mime="text/plain", text="x")
    for traits, why in ((ToolTraits(reads_artifacts=True), {3: "named", 5: "shows it again"}), (None, {3: "named"})):
        call = ToolCall(tool_id="notes.open", tool_call_id=TWO, traits=traits)
        entries = log(Note(tool_call_id=ONE, text="other"), written, call, shown)
        assert find_entries_to_erase(entries, EraseTargets(frozenset({3}))) == why
