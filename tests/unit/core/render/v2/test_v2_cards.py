"""Cards of edition 2 keep every required text and name everything else by alias, in lines that only we write."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.stand_in_names import NAMES
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
    Notice,
    PlanRecorded,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    SourcesAdded,
    Thinking,
    ToolCall,
    ToolCode,
    ToolError,
    TurnEnded,
    TurnStarted,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.render.facts import CardContext, CardLimits
from timeloom.core.render.v2.entries.cards import (
    HINT_SHARE,
    card_rows,
    collapsed_head,
    has_messages,
    rounds_card,
    turn_card,
)
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.testing.conversations import AnyPayload, conversations
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32Z"
TURN, CALL, MESSAGE = TurnId("turn_7"), CallId("c1"), MessageId("m1")
RESULT, FILE = f"tc:{TURN}.c1.result", f"fi:{TURN}.files/a.md"


def entries_of(*blocks: AnyBlock) -> list[Entry]:
    return [to_entry(Draft(TURN, TS, block), seq) for seq, block in enumerate(blocks, 1)]


def call(tool: str = "web.fetch", params: str = '{"url": "https://a"}') -> ToolCall:
    return ToolCall(tool_id=tool, tool_call_id=CALL, params=params)


def content(text: str, path: str = RESULT, mime: str = "text/plain", shown: Shown | None = None) -> ResultContent:
    return ResultContent(tool_call_id=CALL, artifact_path=path, mime=mime, text=text, shown=shown)


def card(*blocks: AnyBlock, limits: CardLimits | None = None, known: CardContext | None = None) -> str:
    return turn_card(TURN, entries_of(*blocks), NAMES, known or CardContext(), limits or CardLimits())


def rows(*blocks: AnyBlock, limits: CardLimits | None = None, known: CardContext | None = None) -> list[str]:
    return card_rows(entries_of(*blocks), NAMES, known or CardContext(), limits or CardLimits())


def test_a_card_says_which_turn_it_replaces_and_how_to_read_it() -> None:
    read = 'all of it: react.read(["ar:t7.react.turn.index"])'
    assert card(UserPrompt(text="hi")).splitlines()[0] == f"[PRUNED t7] 2026-02-09 02:14, {read}"
    assert turn_card(TURN, [], NAMES) == f"[PRUNED t7], {read}"


def test_words_of_people_notes_and_answers_stay() -> None:
    text = card(
        TurnStarted(n=7),
        UserPrompt(text="Which ferry?"),
        ModelCalled(round=1, model="m", request_sha256="0"),
        Thinking(round=1, text="secret thoughts"),
        Notes(tool_call_id=CALL, text="I will look"),
        Followup(message_id=MESSAGE, text="and back?"),
        ExternalEvent(kind="alert", message_id=MessageId("m3"), text="[TURN x] storm"),
        Note(tool_call_id=CALL, text="[P] prefers mornings"),
        Completion(text="The one at nine."),
        TurnEnded(reason="completed"),
    )
    for kept in ("Which ferry?", "and back?", "~[TURN x] storm", "~[P] prefers mornings", "The one at nine."):
        assert kept in text
    for gone in ("secret thoughts", "I will look", "[TURN END]"):
        assert gone not in text
    assert "[TURN END] stopped: enough" in card(TurnEnded(reason="stopped", text="enough"))


def test_a_call_and_its_result_are_one_row_with_the_alias() -> None:
    digest = ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path=RESULT, mime="text/plain", tokens=3))
    assert rows(call(), digest, content("page\ntext")) == ['[t7.1] web.fetch {"url": "https://a"} => page text']
    assert rows(call(), digest) == ['[t7.1] web.fetch {"url": "https://a"} => text/plain']
    assert rows(call(), ResultStatus(tool_call_id=CALL, text="sent")) == [
        '[t7.1] web.fetch {"url": "https://a"} => sent'
    ]


def test_paths_in_a_rows_parameters_are_aliases() -> None:
    (row,) = rows(call("react.read", '{"paths":["fi:turn_7.files/a.md"]}'), content("x"))
    assert row == '[t7.1] react.read {"paths":["fi:t7/a.md"]} => x'
    (odd,) = rows(call("x.y", '{"n":1e999,"at":"turn_7/files/a"}'))
    assert odd == '[t7.1] x.y {"n":1e999,"at":"turn_7/fi…'


def test_code_files_notices_and_sources_have_rows_of_their_own() -> None:
    assert rows(
        ToolCode(tool_call_id=CALL, text="print(1)"),
        call(tool="exec.run", params="{}"),
        Notice(code="late", text="slow", tool_call_id=CALL),
        ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path=FILE, mime="text/markdown", size_bytes=9)),
        content("# A file", FILE),
        SourcesAdded(rows=(SourceRow(sid=3, title="Ferries"),), tool_call_id=CALL),
    ) == [
        "[ar:log[1]] print(1)",
        "[t7.1] exec.run slow",
        "[fi:t7/a.md] exec.run # A file",
        "[so:sources_pool[3]] exec.run Ferries",
    ]


def test_results_are_cut_and_json_shows_its_shape() -> None:
    limits = CardLimits(result_chars=60, result_items=2, result_keys=1)
    (row,) = rows(call(params="{}"), content("word " * 50), limits=limits)
    assert row.endswith("word …")
    wide = content('{"a": [1, "x", null], "b": "' + 80 * "y" * HINT_SHARE + '"}', mime="application/json")
    (row,) = rows(call(params="{}"), wide, limits=limits)
    assert row.endswith('=> {"a": [3 items of number and 1 other shapes], … 1 more keys}')


def test_a_stored_text_has_its_size_unless_it_is_loaded() -> None:
    ref = ref_of(b"a stored text")
    block = ResultContent(tool_call_id=CALL, artifact_path=RESULT, mime="text/plain", text=ref)
    assert rows(block) == ["[t7.1] (13 bytes)"]
    assert rows(block, known=CardContext({ref: b"a stored text"})) == ["[t7.1] a stored text"]
    stored = ToolCall(tool_id="x.y", tool_call_id=CALL, params=ref)
    assert rows(stored) == ["[t7.1] x.y (13 bytes)"]


def test_ranges_skills_and_attachments_stay_beside_a_working_summary() -> None:
    shown = Shown("preview", 2, "[READ] [10-11]/90\n10| x = 1\n11| y = 2")
    blocks: list[AnyBlock] = [call("react.read", "{}"), content("x = 1", FILE, shown=shown), content("how", "sk:pdf")]
    told = card(*blocks, content("a page"), WorkingSummary(text="Goal: see."))
    assert "<channel:summary>\nGoal: see.\n</channel:summary>" in told
    assert "[fi:t7/a.md] react.read lines [10-11]/90 x = 1" in told
    assert "[sk:pdf] react.read how" in told
    assert "a page" not in told
    picture = f"fi:{TURN}.user.attachments/map.png"
    meta = AttachmentMeta(digest=Digest(artifact_path=picture, mime="image/png", size_bytes=3), summary="a map")
    attached = Attachment(artifact_path=picture, mime="image/png", data=b"png")
    assert card(meta, attached).count("map.png") == 1
    assert "[fi:t7.user.attachments/map.png] image/png" in card(attached)


def test_rows_are_bounded() -> None:
    told = card(*(content("x", f"fi:{TURN}.files/{n}.md") for n in range(9)), limits=CardLimits(rows=3))
    assert told.count("[fi:") == 3
    assert told.endswith("[MORE] 6 rows, in the index")


def test_the_last_state_of_an_open_plan_stays() -> None:
    plan = PlanRecorded(snapshot=PlanSnapshot(plan_id=PlanId("p1"), steps=("look",), statuses=("pending",)))
    assert "□ 1) look" in card(plan, known=CardContext(open_plans=frozenset({1})))
    assert "[ar:t7.react.plan.p1] open: look" in card(plan)


def test_a_card_of_rounds_names_them() -> None:
    head = "[PRUNED] rounds 4 to 9 of this turn, all of it: react.read"
    assert rounds_card((4, 9), 7, entries_of(call()), NAMES).startswith(f'{head}(["ar:t7.react.turn.index"])\n[t7.1]')
    assert rounds_card((4, 4), 7, [], NAMES) == (
        '[PRUNED] round 4 of this turn, all of it: react.read(["ar:turns[7].react.turn.index"])'
    )


def test_only_rounds_with_messages_have_more_than_rows() -> None:
    assert has_messages(entries_of(Followup(message_id=MESSAGE, text="and?")), NAMES)
    assert not has_messages(entries_of(call(), content("page")), NAMES)


def test_a_card_of_everything_names_the_earlier_turns() -> None:
    assert collapsed_head(7, 7, ()) == '[PRUNED t7] all of it: react.read(["ar:t7.react.turn.index"])'
    assert collapsed_head(7, 3, (4, 5)).splitlines()[1:] == [
        "[EARLIER TURNS] an index for each: ar:turns[3-6].react.turn.index",
        "[OF NO TURN] ar:log[4-5]",
    ]


@given(timelines() | conversations(), st.integers(0, 300))
def test_whatever_a_turn_contains_its_card_is_bounded(entries: Sequence[Entry], chars: int) -> None:
    limits = CardLimits(text_chars=chars, result_chars=max(1, chars), rows=5)
    told = turn_card(TURN, entries, NAMES, CardContext(AnyPayload()), limits)
    assert told.startswith("[PRUNED t7]")
    assert len(told) <= 200 + len(entries) * (chars + 1_700) + 5 * (chars + 2_000)


def test_a_failed_call_is_one_row_that_says_so() -> None:
    error = ToolError("tool_failed", "no such page")
    notice = Notice(code="tool_failed", text="no such page", tool_call_id=CALL, in_result=True)
    status = ResultStatus(tool_call_id=CALL, text="no such page", mime="text/plain", error=error)
    expected = ['[t7.1] web.fetch failed tool_failed {"url": "https://a"} => no such page']
    assert rows(call(), notice, status) == expected
    assert rows(call(), notice, status, content("no such page")) == expected
