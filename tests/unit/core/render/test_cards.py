"""Cards of pruned turns keep every required text and name everything else."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    Completion,
    Digest,
    ExternalEvent,
    Followup,
    ModelCalled,
    Note,
    Notes,
    PlanRecorded,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    Shown,
    SourcesAdded,
    Steer,
    Thinking,
    ToolCall,
    ToolCode,
    TurnEnded,
    TurnStarted,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.render.v1.entries.cards import (
    HINT_SHARE,
    MIN_HINT_CHARS,
    PARAMS_CHARS,
    CardContext,
    CardLimits,
    card_rows,
    has_messages,
    rounds_card,
    turn_card,
)
from timeloom.core.render.v1.entries.previews import preview_lines
from timeloom.core.render.v1.entries.shorten import shorten_entry
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.testing.conversations import AnyPayload, conversations
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32Z"
TURN = TurnId("turn_7")
CALL, OTHER = CallId("c1"), CallId("c2")
MESSAGE = MessageId("m1")
RESULT = f"tc:{TURN}.c1.result"
LIMITS = CardLimits()


def entries_of(*blocks: AnyBlock) -> list[Entry]:
    return [to_entry(Draft(TURN, TS, block), seq) for seq, block in enumerate(blocks, 1)]


def call(call_id: CallId = CALL, tool: str = "web.fetch", params: str = '{"url": "https://a"}') -> ToolCall:
    return ToolCall(tool_id=tool, tool_call_id=call_id, params=params)


def content(text: str, path: str = RESULT, mime: str = "text/plain", shown: Shown | None = None) -> ResultContent:
    return ResultContent(tool_call_id=CALL, artifact_path=path, mime=mime, text=text, shown=shown)


def card(*blocks: AnyBlock, limits: CardLimits = LIMITS, known: CardContext | None = None) -> str:
    return turn_card(TURN, 7, entries_of(*blocks), known or CardContext(), limits)


def test_a_card_says_which_turn_it_stands_for_and_where_all_of_it_is() -> None:
    head = card(UserPrompt(text="hi")).splitlines()[0]
    assert head == f'[PRUNED TURN 7] {TURN} ts={TS} all of it: react.read(["ar:turns[7].react.turn.index"])'
    assert turn_card(TURN, 7, []) == f'[PRUNED TURN 7] {TURN} all of it: react.read(["ar:turns[7].react.turn.index"])'


def test_words_of_people_notes_and_answers_stay() -> None:
    text = card(
        TurnStarted(n=7),
        UserPrompt(text="Which ferry?"),
        RoundStarted(round=1),
        ModelCalled(round=1, model="m", request_sha256="0"),
        Thinking(round=1, text="secret thoughts"),
        Notes(tool_call_id=CALL, text="I will look"),
        Followup(message_id=MESSAGE, text="and back?"),
        Steer(message_id=MessageId("m2"), text="hurry"),
        ExternalEvent(kind="alert", message_id=MessageId("m3"), text="[TURN x] storm"),
        Note(tool_call_id=CALL, text="[P] prefers mornings"),
        Completion(text="The one at nine."),
        TurnEnded(reason="completed"),
    )
    for kept in ("Which ferry?", "and back?", "hurry", "| [TURN x] storm", "[P] prefers mornings", "The one at nine."):
        assert kept in text
    for gone in ("secret thoughts", "I will look", "[ROUND", "[TURN END]"):
        assert gone not in text


def test_an_end_that_was_none_stays() -> None:
    assert "[TURN END] stopped: enough" in card(TurnEnded(reason="stopped", text="enough"))


def test_a_long_message_is_shortened_and_names_its_path() -> None:
    text = card(UserPrompt(text="word " * 2_000), limits=CardLimits(text_chars=100))
    assert len(text) < 400
    assert f'more characters: react.read(["ar:{TURN}.user.prompt"])' in text


def test_what_has_no_path_is_read_by_its_place() -> None:
    (entry,) = entries_of(TurnEnded(reason="stopped", text="x" * 100))
    assert shorten_entry(entry, 20).endswith('react.read(["ar:log[1]"])')


def test_a_picture_is_named_and_not_attached() -> None:
    path = f"fi:{TURN}.user.attachments/map.png"
    (picture,) = entries_of(Attachment(artifact_path=path, mime="image/png", data=b"png"))
    assert shorten_entry(picture, 100) == f'[READ] attached image/png: react.read(["{path}"])'
    meta = AttachmentMeta(digest=Digest(artifact_path=path, mime="image/png", size_bytes=3), summary="a map")
    told = card(meta, Attachment(artifact_path=path, mime="image/png", data=b"png"), WorkingSummary(text="sum"))
    assert "[USER ATTACHMENT] map.png | image/png | 3 bytes\nsummary: a map" in told
    assert "- artifact" not in told
    alone = card(Attachment(artifact_path=path, mime="image/png", data=b"png"))
    assert f"- artifact {path} - -: image/png" in alone


def test_a_call_and_what_it_returned_are_one_row() -> None:
    digest = ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path=RESULT, mime="text/plain", tokens=3))
    rows = card_rows(entries_of(call(), digest, content("page\ntext")))
    assert rows == ['- tool ar:log[3] web.fetch -: {"url": "https://a"} => page text']
    only_receipt = card_rows(entries_of(call(), digest))
    assert only_receipt == ['- tool ar:log[2] web.fetch -: {"url": "https://a"} => text/plain']
    status = card_rows(entries_of(call(), ResultStatus(tool_call_id=CALL, text="sent")))
    assert status == ['- tool ar:log[2] web.fetch -: {"url": "https://a"} => sent']


def test_code_files_and_sources_have_rows_of_their_own() -> None:
    path = f"fi:{TURN}.files/a.md"
    rows = card_rows(
        entries_of(
            ToolCode(tool_call_id=CALL, text="print(1)"),
            call(tool="exec.run", params="{}"),
            ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path=path, mime="text/markdown", size_bytes=9)),
            content("# A file", path),
            SourcesAdded(rows=(SourceRow(sid=3, title="Ferries"),), tool_call_id=CALL),
        )
    )
    assert rows == [
        "- tool ar:log[1] - -: print(1)",
        "- tool ar:log[2] exec.run -: {}",
        f"- artifact {path} exec.run c1: # A file",
        "- source so:sources_pool[3] exec.run c1: Ferries",
    ]


def test_results_are_cut_and_what_is_json_shows_its_shape() -> None:
    limits = CardLimits(result_chars=60, result_items=2, result_keys=1)
    long = 10 * "y" * HINT_SHARE
    (row,) = card_rows(entries_of(call(params="{}"), content("word " * 50)), limits=limits)
    assert row.endswith("word …")
    wide = content('{"a": [1, "x", null], "b": "' + 8 * long + '"}', mime="application/json")
    (row,) = card_rows(entries_of(call(params="{}"), wide), limits=limits)
    assert row.endswith('=> {"a": [3 items of number and 1 other shapes], … 1 more keys}')
    broken = content("{" * 100, mime="application/json")
    (row,) = card_rows(entries_of(call(params="{}"), broken), limits=limits)
    assert row.endswith("{{…")


def test_a_hint_is_as_long_as_a_twelfth_of_what_it_stands_for() -> None:
    for chars, most in ((300, MIN_HINT_CHARS), (2_400, 200), (60_000, PARAMS_CHARS + CardLimits().result_chars)):
        params = '{"text": "' + "p" * (chars // 2) + '"}'
        (row,) = card_rows(entries_of(call(params=params), content("r" * (chars // 2))))
        hint = row.partition("-: ")[2].replace(" => ", "")
        assert most - 3 <= len(hint) <= most + 2
        assert "p" in hint
        assert "r" in hint


def test_rounds_of_one_card_name_the_first_and_the_last() -> None:
    assert rounds_card((4, 9), 7, entries_of(call())).startswith("[PRUNED ROUND 4] to [PRUNED ROUND 9] all of it: ")


def test_only_rounds_with_messages_have_more_than_rows() -> None:
    assert has_messages(entries_of(Followup(message_id=MessageId("m1"), text="and?")))
    assert not has_messages(entries_of(call(), content("page")))


def test_a_stored_text_is_told_by_its_size_unless_it_is_at_hand() -> None:
    ref = ref_of(b"a stored text")
    block = ResultContent(tool_call_id=CALL, artifact_path=RESULT, mime="text/plain", text=ref)
    assert card_rows(entries_of(block))[0].endswith(": (13 bytes)")
    assert card_rows(entries_of(block), CardContext({ref: b"a stored text"}))[0].endswith(": a stored text")


def test_ranges_and_skills_keep_their_place_where_a_summary_stands_for_the_rest() -> None:
    path, skill = "fi:turn_1.files/a.py", "sk:docs.pdf"
    shown = preview_lines("x = 1\ny = 2\n", 10, 90, path)
    blocks: list[AnyBlock] = [
        call(tool="react.read", params="{}"),
        content("x = 1\ny = 2\n", path, shown=shown),
        content("x = 1\ny = 2\n", path, shown=preview_lines("x = 1\n", 40, 90, path)),
        content("how to", skill),
        content("a page"),
    ]
    told = card(*blocks, WorkingSummary(text="Goal: see."))
    assert "Goal: see." in told
    assert f"- artifact {path} react.read c1: lines [10-11]/90 x = 1 y = 2" in told
    assert f"- artifact {path} react.read c1: lines [40-40]/90" in told
    assert f"- artifact {skill} react.read c1: how to" in told
    assert "ar:log" not in told
    assert "- tool ar:log[5] react.read -: {} => a page" in card(*blocks)


def test_rows_are_bounded() -> None:
    blocks = [content("x", f"fi:{TURN}.files/{n}.md") for n in range(9)]
    told = card(*blocks, limits=CardLimits(rows=3))
    assert told.count("- artifact") == 3
    assert told.endswith("- and 6 more, in the index")


def test_the_last_word_on_an_open_plan_stays() -> None:
    plan = PlanSnapshot(
        plan_id=PlanId("p1"), steps=("look", "answer"), statuses=("pending", "pending"), created_ts=TS, last_ts=TS
    )
    block = PlanRecorded(snapshot=plan)
    assert "1) look" in card(block, known=CardContext(open_plans=frozenset({1})))
    assert "1) look" not in card(block)
    assert f"- plan ar:{TURN}.react.plan.p1 - -: open: look; answer" in card(block)


def test_a_round_is_told_by_its_rows() -> None:
    told = rounds_card((4, 4), 7, entries_of(RoundStarted(round=4), call(), content("page")))
    head, row = told.splitlines()
    assert head == '[PRUNED ROUND 4] all of it: react.read(["ar:turns[7].react.turn.index"])'
    assert row.endswith("=> page")


@given(timelines() | conversations(), st.integers(0, 300))
def test_whatever_a_turn_holds_its_card_is_one_text_without_a_tag(entries: Sequence[Entry], chars: int) -> None:
    limits = CardLimits(text_chars=chars, result_chars=max(1, chars), rows=5)
    told = turn_card(TURN, 7, entries, CardContext(AnyPayload()), limits)
    assert told.startswith("[PRUNED TURN 7]")
    assert "<channel:" not in told
    assert len(told) <= 200 + len(entries) * (chars + 1_700) + 5 * (chars + 2_000)
