"""Views, kept up to date one entry at a time, equal what plain code over the whole log says."""

import hashlib
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.repository import GOLDEN
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    ApprovalRequested,
    Completion,
    ConversationStarted,
    Cut,
    Digest,
    Followup,
    Gate,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Pinned,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    ToolCall,
    ToolTraits,
    TurnEnded,
    TurnStarted,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.blocks.round import Usage
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft, Entry, EntryError, microseconds_between, to_entry
from timeloom.core.view.context.cuts import RULES
from timeloom.core.view.context.visible import Stub
from timeloom.core.view.views import VIEWS_VERSION, Views, fold, fold_in_slices
from timeloom.testing.samples import TURN as SAMPLE_TURN
from timeloom.testing.samples import sample_drafts
from timeloom.testing.strategies import timelines
from timeloom.wire.snapshot import decode_views, encode_views

TS = "2026-02-09T02:14:32.676425Z"
T1, T2 = TurnId("turn_1"), TurnId("turn_2")
C1, C2 = CallId("c1"), CallId("c2")
FILE = "fi:turn_1.files/a.md"

Entries = Sequence[Entry]
Shown = list[tuple[int, Stub | None]]


def log(*blocks: object, turn: TurnId = T1) -> list[Entry]:
    header = Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))
    return [to_entry(header, 1), *(to_entry(Draft(turn, TS, block), seq) for seq, block in enumerate(blocks, 2))]  # pyright: ignore[reportArgumentType]


# --- plain code over the whole log -----------------------------------------------------------------------------


def plainly_visible(entries: Entries) -> Shown:
    shown: Shown = []
    pins: dict[str, list[int]] = {}
    for entry in entries:
        before = list(shown)
        pinned = {seq for seqs in pins.values() for seq in seqs}
        match entry.block:
            case Hidden(target=target, replacement=text):
                taken = [
                    seq for seq in hidden_by(entries[: entry.seq - 1], target, shown) if can_hide(seq, shown, target)
                ]
                shown = replaced(shown, taken, Stub("hidden", entry.seq, text))
                pins = {path: seqs for path, seqs in pins.items() if not set(seqs) & set(taken)}
            case Pinned(target=target, pinned=is_pin):
                pins.pop(target, None)
                pinned = {seq for seqs in pins.values() for seq in seqs}
                as_itself = [seq for seq, stand in shown if stand is None and seq not in pinned]
                found = [seq for seq in hidden_by(entries[: entry.seq - 1], target, shown) if seq in as_itself]
                if is_pin and found and not target.startswith("su:"):
                    pins[target] = found
                shown.append((entry.seq, None))
            case Pruned(cuts=cuts):
                for cut in cuts:
                    taken = [seq for seq, _ in shown if cut.first_seq <= seq <= cut.last_seq and seq not in pinned]
                    shown = replaced(shown, taken, Stub("pruned", entry.seq, cut.text) if cut.text else None)
            case RangeSummary() as summary:
                taken = [seq for seq, _ in shown if covers(summary, entries[seq - 1]) and seq not in pinned]
                shown = replaced(shown, taken, Stub("summary", entry.seq))
                if not taken:
                    shown = [*before, (entry.seq, None)]
            case _ if not is_inner(entry, entries):
                shown.append((entry.seq, None))
            case _:
                pass
    return shown


def is_inner(entry: Entry, entries: Entries) -> bool:
    """Whether the entry belongs to a call that the newest turn's programs have made by then."""
    before = entries[: entry.seq]
    begun = max((one.seq for one in before if isinstance(one.block, TurnStarted)), default=0)
    inner = {one.block.tool_call_id for one in before[begun:] if isinstance(one.block, ToolCall) and one.block.by}
    return getattr(entry.block, "tool_call_id", None) in inner


def hidden_by(entries: Entries, target: str, shown: Shown) -> list[int]:
    here = [entry for entry in entries if not isinstance(entry.block, Hidden | Pruned)]
    found = [entry for entry in here if entry.alias == target][-1:]
    found = found or [entry for entry in here if entry.path == target]
    if found and isinstance(found[-1].block, RangeSummary):
        by = found[-1].seq
        stands = [seq for seq, stand in shown if stand and stand.kind == "summary" and stand.by == by]
        return stands or [by]
    return [entry.seq for entry in found]


def can_hide(seq: int, shown: Shown, target: str) -> bool:
    kinds = ("hidden", "summary") if target.startswith("su:") else ("hidden",)
    return any(at == seq and (stand is None or stand.kind in kinds) for at, stand in shown)


def covers(summary: RangeSummary, entry: Entry) -> bool:
    if summary.last_seq:
        return summary.first_seq <= entry.seq <= summary.last_seq
    return entry.turn_id in summary.covered_turn_ids


def replaced(shown: Shown, taken: list[int], stand: Stub | None) -> Shown:
    stands = [(taken[0], stand)] if taken and stand else []
    return sorted([item for item in shown if item[0] not in taken] + stands, key=lambda item: item[0])


class Span:
    """The range that a rule keeps together: from `start` to `end`, or to the end of the log while `end` is None."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end: int | None = None

    def take(self, does: str, seq: int) -> None:
        if does == "open":
            self.end = None
        elif does != "extend" or self.end is not None:
            self.end = seq

    def holds(self, cut: int) -> bool:
        return self.start <= cut and (self.end is None or cut < self.end)


def plainly_legal_cuts(entries: Entries) -> list[int]:
    offered = plainly_offered(entries)
    spans = plain_spans(entries)
    return [cut for cut in offered if cut and not any(span.holds(cut) for span in spans)]


def plainly_offered(entries: Entries) -> list[int]:
    turn, offered = NO_TURN, list[int]()
    for entry in entries:
        opens = isinstance(entry.block, TurnStarted | RoundStarted)
        if opens or (isinstance(entry.block, UserPrompt) and entry.turn_id != turn):
            turn = entry.turn_id
            offered.append(entry.seq - 1)
    return offered


def plain_spans(entries: Entries) -> list[Span]:
    spans: list[Span] = []
    named: dict[str, Span] = {}
    turn = NO_TURN

    def end_all(seq: int) -> None:
        for span in named.values():
            span.end = span.end or seq
        named.clear()

    for entry in entries:
        if isinstance(entry.block, TurnStarted | UserPrompt | RoundStarted) and entry.turn_id != turn:
            turn = entry.turn_id
            end_all(entry.seq - 1)
        for mark in filter(None, (rule.mark(entry) for rule in RULES if entry.turn_id == turn)):
            if mark.key not in named and mark.does == "open":
                named[mark.key] = Span(entry.seq)
                spans.append(named[mark.key])
            if mark.key in named:
                named[mark.key].take(mark.does, entry.seq)
            if mark.does == "close":
                named.pop(mark.key, None)
        if isinstance(entry.block, TurnEnded) and entry.turn_id == turn:
            end_all(entry.seq)
    return spans


def plain_versions(entries: Entries) -> dict[str, list[CallId | None]]:
    reading: set[tuple[TurnId, CallId | None]] = set()
    found: dict[str, dict[tuple[TurnId, CallId | None], CallId | None]] = {}
    for entry in entries:
        block = entry.block
        call: CallId | None = getattr(block, "tool_call_id", None)
        key = (entry.turn_id, call)
        if isinstance(block, ToolCall) and block.known_traits.reads_artifacts:
            reading.add(key)
        path = getattr(block, "artifact_path", "") or getattr(getattr(block, "digest", None), "artifact_path", "")
        if path and not (path in found and key not in found[path] and key in reading):
            found.setdefault(path, {})[key] = call
    return {path: list(versions.values()) for path, versions in found.items()}


# --- properties ------------------------------------------------------------------------------------------------


@given(timelines())
def test_what_is_visible_equals_the_plain_fold(entries: Entries) -> None:
    assert list(fold(entries).visible.shown.items()) == plainly_visible(entries)


@given(timelines())
def test_legal_cuts_equal_the_plain_rules(entries: Entries) -> None:
    assert fold(entries).cuts.legal == plainly_legal_cuts(entries)


@given(timelines())
def test_every_entry_is_in_sight_or_known_to_be_gone(entries: Entries) -> None:
    visible = fold(entries).visible
    for entry in entries:
        marks = isinstance(entry.block, Hidden | Pruned | RangeSummary)
        assert marks or (entry.seq in visible.shown) or (entry.seq in visible.gone)


@given(timelines())
def test_every_path_leads_to_its_entries(entries: Entries) -> None:
    paths = fold(entries).paths
    for entry in entries:
        if entry.path:
            assert entry.seq in paths.seqs[entry.path]
        if entry.alias:
            newest = [one.seq for one in entries if one.alias == entry.alias][-1]
            assert paths.find(entry.alias) == (newest,)


@given(timelines())
def test_calls_are_open_until_a_receipt(entries: Entries) -> None:
    receipts = {(e.turn_id, e.block.tool_call_id) for e in entries if isinstance(e.block, ResultDigest | ResultStatus)}
    calls = {(e.turn_id, e.block.tool_call_id): e.seq for e in entries if isinstance(e.block, ToolCall)}
    expected = {f"{turn}.{call}": seq for (turn, call), seq in calls.items() if (turn, call) not in receipts}
    assert fold(entries).calls.open == expected


@given(timelines())
def test_versions_are_grouped_by_call_and_path(entries: Entries) -> None:
    artifacts = fold(entries).artifacts.artifacts
    assert {path: [one.tool_call_id for one in item.versions] for path, item in artifacts.items()} == plain_versions(
        entries
    )


@given(timelines())
def test_spend_is_the_sum_of_what_models_reported(entries: Entries) -> None:
    spend = fold(entries).spend
    answers = [entry.block for entry in entries if isinstance(entry.block, ModelAnswered)]
    assert spend.total.output_tokens == sum(answer.usage.output_tokens for answer in answers)
    assert spend.total.cost_nano_usd == sum(one.cost_nano_usd for one in spend.by_turn.values())
    assert spend.total.model_calls == sum(one.model_calls for one in spend.by_model.values()) == len(answers)
    guesses = [one for one in answers if not one.usage_reported and (one.usage.cost_nano_usd or one.usage == Usage())]
    unpriced = [one for one in answers if not one.priced and one not in guesses]
    assert spend.total.unknown_costs == len(guesses) + len(unpriced)


@given(timelines())
def test_a_turns_spans_hold_exactly_its_entries(entries: Entries) -> None:
    turns = fold(entries).turns.turns
    for name, turn in turns.items():
        assert list(turn.seqs()) == [entry.seq for entry in entries if entry.turn_id == name]
    assert set(turns) == {entry.turn_id for entry in entries} - {NO_TURN}


@given(timelines(), st.data())
def test_a_snapshot_goes_on_as_if_it_had_never_been_taken(entries: Entries, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(entries)))
    restored = decode_views(encode_views(fold(entries[:at])))
    assert restored is not None
    assert encode_views(fold(entries[at:], restored)) == encode_views(fold(entries))


@given(timelines(), st.integers(1, 8))
def test_a_fold_in_slices_equals_adding_one_entry_after_another(entries: Entries, size: int) -> None:
    """A view leaves out the entries before the one that resets it, and must not miss any of them."""
    sliced, added = Views(), Views()
    slices = sum(1 for _ in fold_in_slices(entries, sliced, size))
    for entry in entries:
        added.add(entry)
    assert encode_views(sliced) == encode_views(added)
    assert slices == -(-len(entries) // size)


# --- examples --------------------------------------------------------------------------------------------------


def test_the_samples_fold_like_plain_code_says() -> None:
    entries = [to_entry(draft, seq) for seq, draft in enumerate(sample_drafts(), 1)]
    views = fold(entries)
    assert list(views.visible.shown.items()) == plainly_visible(entries)
    assert views.cuts.legal == plainly_legal_cuts(entries)
    assert views.conversation.erased
    assert (views.conversation.title, [*views.feedback.turns]) == ("Ferries", [SAMPLE_TURN])


def test_the_folds_are_those_of_their_version() -> None:
    """A fold that changed without a new `VIEWS_VERSION` would trust snapshots that the old fold made."""
    entries = [to_entry(draft, seq) for seq, draft in enumerate(sample_drafts(), 1)]
    digest = hashlib.sha256(encode_views(fold(entries))).hexdigest()
    pinned = GOLDEN / "views" / f"{VIEWS_VERSION}.sha256"
    assert digest == pinned.read_text().strip(), "a fold changed: give VIEWS_VERSION a new value and pin its digest"


def test_a_summary_of_nothing_in_sight_shows_itself() -> None:
    assert fold(log(RangeSummary(covered_turn_ids=(T2,), text="s"))).visible.shown == {1: None, 2: None}


def test_an_answer_is_hidden_by_its_bare_path_too() -> None:
    hide = Hidden(target="ar:turn_1.assistant.completion", replacement="short")
    visible = fold(log(Completion(text="a"), Completion(text="b", n=2), hide)).visible
    assert visible.shown == {1: None, 2: None, 3: Stub("hidden", 4, "short")}


def test_a_question_to_a_person_is_not_cut_from_its_answer() -> None:
    ask = ApprovalRequested(tool_call_id=C1, tool_id="x.y", text="?")
    decide = ApprovalDecided(tool_call_id=C1, approved=False, by="u")
    entries = log(
        UserPrompt(text="a"), RoundStarted(round=1), ask, RoundStarted(round=2), decide, RoundStarted(round=3)
    )
    views = fold(entries)
    assert views.cuts.legal == [1, 6]
    call = views.calls.get(T1, C1)
    assert call is not None
    assert call.approved is False


def test_a_receipt_before_its_call_leaves_no_call_open() -> None:
    views = fold(log(ResultStatus(tool_call_id=C1, text="ok"), ToolCall(tool_id="x.y", tool_call_id=C1)))
    assert views.calls.open == {}


def test_an_entry_out_of_order_is_refused() -> None:
    with pytest.raises(EntryError, match="after 0"):
        Views().add(log(UserPrompt(text="x"))[1])


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", msgspec.msgpack.encode({"tail": "x"})])
def test_a_damaged_snapshot_is_no_snapshot(data: bytes) -> None:
    assert decode_views(data) is None


def test_hiding_a_result_leaves_one_stand_for_its_blocks() -> None:
    digest = ResultDigest(tool_call_id=C1, digest=Digest(artifact_path="tc:turn_1.c1.result"))
    content = ResultContent(tool_call_id=C1, artifact_path="tc:turn_1.c1.result", mime="text/plain", text="long")
    views = fold(log(digest, content, Hidden(target="tc:turn_1.c1.result", replacement="was long")))
    assert views.visible.shown == {1: None, 2: Stub("hidden", 4, "was long")}
    assert list(views.paths.find("tc:turn_1.c1.result")) == [2, 3]


def test_reading_a_hidden_artifact_again_shows_it_and_makes_no_version() -> None:
    write = ResultContent(tool_call_id=C1, artifact_path=FILE, mime="text/markdown", text="v1")
    hide = Hidden(target=FILE, replacement="draft")
    call = ToolCall(tool_id="react.read", tool_call_id=C2)
    again = ResultContent(tool_call_id=C2, artifact_path=FILE, mime="text/markdown", text="v1")
    views = fold(log(write, hide, call, again))
    assert views.visible.shown[5] is None
    assert not views.artifacts.artifacts[FILE].is_edited


def test_an_own_tool_that_reads_artifacts_makes_no_version() -> None:
    digest = Digest(artifact_path=FILE, kind="file")
    write = ResultDigest(tool_call_id=C1, digest=digest)
    again = ResultDigest(tool_call_id=C2, digest=digest)
    traits = ToolTraits(reads_artifacts=True)
    for recorded, is_edited in ((traits, False), (None, True)):
        views = fold(log(write, ToolCall(tool_id="notes.open", tool_call_id=C2, traits=recorded), again))
        assert views.artifacts.artifacts[FILE].is_edited == is_edited
        assert views.artifacts.is_reading(T1, C2) != is_edited
        call = views.calls.get(T1, C2)
        assert call is not None
        assert call.traits == recorded


def test_metadata_that_a_reading_shows_again_is_no_edit() -> None:
    digest = Digest(artifact_path=FILE, kind="file")
    call = ToolCall(tool_id="react.read", tool_call_id=C2)
    views = fold(log(ResultDigest(tool_call_id=C1, digest=digest), call, ResultDigest(tool_call_id=C2, digest=digest)))
    assert views.artifacts.edit_seqs == {}
    assert views.artifacts.is_reading(T1, C2)
    assert not views.artifacts.is_reading(T2, C2)


def test_what_was_pruned_away_cannot_be_hidden_and_a_wide_prune_takes_the_rest() -> None:
    prune = Pruned(cuts=(Cut(2, 30),))
    hide = Hidden(target="ar:turn_1.user.prompt", replacement="gone anyway")
    views = fold(log(UserPrompt(text="a"), prune, hide, Pruned(cuts=(Cut(1, 99, "card"),))))
    assert views.visible.shown == {1: Stub("pruned", 5, "card")}
    assert views.visible.gone == {1: 5, 2: 3}


def test_an_edit_is_a_new_version_and_the_path_means_the_newest() -> None:
    digest = Digest(artifact_path=FILE, kind="file")
    first = [ResultDigest(tool_call_id=C1, digest=digest), content(C1, "v1")]
    second = [ResultDigest(tool_call_id=C2, digest=digest), content(C2, "v2")]
    artifact = fold(log(*first, *second)).artifacts.artifacts[FILE]
    assert artifact.is_edited
    assert (artifact.latest.digest_seq, artifact.latest.content_seqs) == (4, (5,))
    assert artifact.digest == digest


def content(call: CallId, text: str) -> ResultContent:
    return ResultContent(tool_call_id=call, artifact_path=FILE, mime="text/markdown", text=text)


def test_calls_that_overlap_keep_their_versions_apart() -> None:
    digests = [ResultDigest(tool_call_id=call, digest=Digest(artifact_path=FILE)) for call in (C1, C2)]
    artifact = fold(log(*digests, content(C1, "v1"), content(C2, "v2"))).artifacts.artifacts[FILE]
    assert [(one.tool_call_id, one.digest_seq, one.content_seqs) for one in artifact.versions] == [
        (C1, 2, (4,)),
        (C2, 3, (5,)),
    ]


def test_metadata_that_comes_late_does_not_speak_for_a_newer_version() -> None:
    late = ResultDigest(tool_call_id=C1, digest=Digest(artifact_path=FILE, mime="old"))
    assert fold(log(content(C1, "v1"), content(C2, "v2"), late)).artifacts.artifacts[FILE].digest is None


def test_an_artifact_first_heard_of_by_reading_has_one_whole_version() -> None:
    digest = ResultDigest(tool_call_id=C1, digest=Digest(artifact_path=FILE))
    entries = log(ToolCall(tool_id="react.read", tool_call_id=C1), digest, content(C1, "v1"))
    (version,) = fold(entries).artifacts.artifacts[FILE].versions
    assert (version.digest_seq, version.content_seqs) == (3, (4,))


def test_a_call_id_that_two_turns_use_means_two_calls() -> None:
    entries = log(ToolCall(tool_id="react.read", tool_call_id=C1), content(C1, "v1"))
    later = [to_entry(Draft(T2, TS, block), seq) for seq, block in enumerate([content(C1, "v2")], 4)]
    assert len(fold([*entries, *later]).artifacts.artifacts[FILE].versions) == 2


def test_a_summary_that_stands_for_others_can_be_hidden() -> None:
    summary = RangeSummary(covered_turn_ids=(T1,), text="s1", first_seq=2, last_seq=2)
    hide = Hidden(target="su:turn_1.conv.range.summary", replacement="short")
    assert fold(log(UserPrompt(text="a"), summary, hide)).visible.shown == {1: None, 2: Stub("hidden", 4, "short")}
    again = fold(log(UserPrompt(text="a"), summary, hide, hide))
    assert again.visible.shown == {1: None, 2: Stub("hidden", 4, "short")}


def test_hiding_blocks_that_do_not_lie_together_leaves_what_is_between() -> None:
    views = fold(
        log(
            content(C1, "a"),
            UserPrompt(text="b"),
            content(C2, "c"),
            content(C2, "d"),
            Hidden(target=FILE, replacement="x"),
        )
    )
    assert list(views.visible.shown) == views.visible.seqs_from(1) == [1, 2, 3]


def test_hiding_a_path_again_hides_what_came_since() -> None:
    hide = Hidden(target=FILE, replacement="x")
    views = fold(log(content(C1, "a"), content(C1, "b"), hide, content(C2, "c"), hide))
    assert views.visible.shown == {1: None, 2: Stub("hidden", 6, "x")}
    assert (views.visible.gone, views.visible.at_path[FILE]) == ({2: 6, 3: 4, 5: 6}, [2, 3, 5])


def test_a_summary_of_nothing_is_hidden_by_its_numbered_path() -> None:
    bare = RangeSummary(covered_turn_ids=(T2,), text="s")
    hide = Hidden(target="su:turn_1.conv.range.summary.1", replacement="x")
    views = fold(log(bare, bare, hide))
    assert views.visible.shown == {1: None, 2: None, 3: Stub("hidden", 4, "x")}


def test_an_entry_that_is_not_visible_is_no_key() -> None:
    shown = fold(log(UserPrompt(text="a"), Pruned(cuts=(Cut(2, 2),)))).visible.shown
    assert (repr(shown), 2 in shown, "1" in shown, shown.get(2)) == ("{1: None}", False, False, None)


@given(timelines())
def test_an_entry_changes_only_the_views_that_fold_its_class(entries: Entries) -> None:
    """The fold shows an entry only to some views; each view alone, shown every entry, becomes the same."""
    views = fold(entries)
    for field in msgspec.structs.fields(Views)[1:]:
        alone = field.type()
        for entry in entries:
            alone.add(entry)
        assert alone == getattr(views, field.name), field.name


def test_sums_stop_where_a_snapshot_would_not_take_them() -> None:
    most = 2**53 - 1
    usage = Usage(cost_nano_usd=most, input_tokens=most, cache_read_tokens=most, output_tokens=most)
    views = fold(log(*[ModelAnswered(round=1, model="m", stop_reason="end", usage=usage)] * 1100))
    total = views.spend.total
    assert (total.cost_nano_usd, total.input_tokens, total.output_tokens, total.cache_write_tokens) == (
        *[2**63 - 1] * 3,
        0,
    )
    assert encode_views(views)


def test_a_side_call_is_no_step_of_the_turn() -> None:
    call = ModelCalled(round=1, model="m", request_sha256="x", purpose="title")
    answer = ModelAnswered(round=1, model="m", stop_reason="end", purpose="title")
    views = fold(log(TurnStarted(n=1), Followup(text="more", message_id=MessageId("m1")), call, answer))
    assert (views.progress.asked, views.progress.answer_seq) == ("no", 0)
    assert [event.hint for event in views.live.events] == ["more"]


def test_entries_outside_of_turns_belong_to_no_turn() -> None:
    blocks = (
        TurnStarted(n=1),
        RoundStarted(round=1),
        ToolCall(tool_id="x.y", tool_call_id=C1),
        Completion(text="a"),
        WorkingSummary(text="w"),
        RangeSummary(covered_turn_ids=(T2,), text="s"),
        TurnEnded(reason="completed"),
    )
    assert fold(log(*blocks, turn=NO_TURN)).turns.turns == {}


def test_pruning_puts_a_card_where_the_turn_was() -> None:
    views = fold(log(UserPrompt(text="a"), Completion(text="b"), Pruned(cuts=(Cut(2, 3, "card"),))))
    assert views.visible.shown == {1: None, 2: Stub("pruned", 4, "card")}


def test_a_summary_stands_where_its_range_began_and_takes_an_older_summary_in() -> None:
    first = RangeSummary(covered_turn_ids=(T1,), text="s1", first_seq=2, last_seq=3)
    second = RangeSummary(covered_turn_ids=(T1,), text="s2", n=2)
    views = fold(log(UserPrompt(text="a"), Completion(text="b"), first, Completion(text="c", n=2), second))
    assert views.visible.shown == {1: None, 2: Stub("summary", 6)}


def test_a_turn_counts_what_it_will_number_next() -> None:
    views = fold(log(TurnStarted(n=1), RoundStarted(round=1), Completion(text="a"), TurnEnded(reason="completed")))
    turn = views.turns.turns[T1]
    assert (turn.completions, turn.ended, [one.first_seq for one in turn.rounds]) == (1, "completed", [3])
    assert views.turns.open_turn is None


def test_a_turn_is_open_until_it_ends_and_opens_again() -> None:
    entries = log(TurnStarted(n=1), TurnEnded(reason="stopped"), TurnStarted(n=1))
    assert fold(entries).turns.open_turn == T1
    assert Views().turns.open_turn is None


def test_history_may_be_cut_between_rounds_but_not_inside_a_call() -> None:
    done = [ToolCall(tool_id="x.y", tool_call_id=C1), ResultStatus(tool_call_id=C1, text="ok")]
    waiting = [ToolCall(tool_id="x.y", tool_call_id=C2)]
    entries = log(
        UserPrompt(text="a"), RoundStarted(round=1), *done, RoundStarted(round=2), *waiting, RoundStarted(round=3)
    )
    views = fold(entries)
    assert views.cuts.legal == [1, 5]
    assert views.cuts.legal_after(1) == [5]
    late = to_entry(Draft(T1, TS, ResultStatus(tool_call_id=C1, text="late")), 9)
    views.add(late)
    assert views.cuts.legal == [1]


def test_sources_know_where_they_were_used() -> None:
    rows = SourcesAdded(rows=(SourceRow(sid=1, source_type="web", url="https://a.example/"),))
    digest = ResultDigest(tool_call_id=C1, digest=Digest(artifact_path=FILE, sources_used=(1,)))
    views = fold(log(rows, Completion(text="x [[S:1]]", sources_used=(1,)), digest))
    assert views.sources.used_at == {1: [3, 4]}
    assert views.sources.pool.get(1) is not None


def test_usage_of_a_call_counts_once_in_turn_model_and_total() -> None:
    answer = ModelAnswered(round=1, model="m", stop_reason="end", usage=Usage(input_tokens=3, cache_read_tokens=2))
    spend = fold(log(answer, RoundStarted(round=1))).spend
    assert spend.by_model["m"].input_tokens == spend.by_turn[T1].input_tokens == spend.total.input_tokens == 3
    assert (spend.total.rounds, spend.total.cache_read_tokens) == (1, 2)


def test_time_is_that_of_calls_and_not_of_waiting_for_people_or_restarts() -> None:
    ask = ModelCalled(round=1, model="m", request_sha256="0")
    answer = ModelAnswered(round=1, model="m", stop_reason="end")
    call, receipt = ToolCall(tool_id="t.send", tool_call_id=C1), ResultStatus(tool_call_id=C1, text="sent")
    question = ApprovalRequested(tool_call_id=C1, tool_id="t.send", text="send?")
    leave = Gate(policy="approval", verdict="allow", tool_call_id=C1)

    def wall_s(*blocks: tuple[int, AnyBlock]) -> float:
        stamps = [Draft(T1, f"2026-02-09T02:{second // 60:02}:{second % 60:02}Z", block) for second, block in blocks]
        return fold(to_entry(draft, seq) for seq, draft in enumerate(stamps, 1)).spend.by_turn[T1].wall_us / 1e6

    assert wall_s((1, ask), (3, answer)) == 2
    assert wall_s((1, ask), (500, ask), (504, answer)) == 4
    assert wall_s((1, call), (4, receipt), (9, receipt)) == 3
    assert wall_s((1, call), (1, question), (400, leave), (405, receipt)) == 5
    assert wall_s((1, call), (900, leave), (901, receipt)) == 1
    assert wall_s((1, call), (2, TurnStarted(n=2)), (3, receipt)) == 0
    assert wall_s((5, ask), (3, answer)) == 0


def test_no_time_passes_on_a_day_that_no_calendar_has() -> None:
    assert microseconds_between("2026-02-30T00:00:00Z", "2026-03-01T00:00:00Z") == 0
    assert microseconds_between("2026-02-09T02:14:32.676425Z", "2026-02-09T02:14:33Z") == 323_575
