"""The second edition as a renderer: everything it shows has the aliases of its conversation."""

from timeloom.core.blocks import AnyBlock, ResultContent, SourcesAdded, ToolCall, TurnStarted, UserPrompt
from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.editions import SECOND_EDITION, renderer_for
from timeloom.core.render.facts import CallFact, CardContext, CardLimits, RoundFacts, SummaryFacts
from timeloom.core.render.v2.names_at import NamesAt
from timeloom.core.render.v2.renderer import V2_RENDERER
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import Draft, to_entry
from timeloom.core.view.views import fold

TS = "2026-02-09T02:14:32Z"
TURN, CALL = TurnId("turn_1770603271112_2yz1lp"), CallId("18f62649fb3b")
RESULT = f"tc:{TURN}.{CALL}.result"
BLOCKS: list[AnyBlock] = [
    TurnStarted(n=1, edition=2),
    UserPrompt(text="Which ferry?"),
    ToolCall(tool_id="web.search", tool_call_id=CALL, params='{"q":"ferry"}'),
    ResultContent(tool_call_id=CALL, artifact_path=RESULT, mime="text/plain", text="line\n" * 400),
    SourcesAdded(rows=(SourceRow(sid=1, title="Fares", artifact_path=f"fi:{TURN}.files/a.md"),), tool_call_id=CALL),
]
ENTRIES = [to_entry(Draft(TURN, TS, block), seq) for seq, block in enumerate(BLOCKS, 1)]
VIEWS = fold(ENTRIES)
LIMITS, CONTEXT = CardLimits(), CardContext()


def test_the_second_edition_records_the_number_3() -> None:
    assert renderer_for(SECOND_EDITION) is V2_RENDERER
    assert V2_RENDERER.number == 3


def test_every_text_of_the_edition_names_turns_and_calls_by_alias() -> None:
    facts = SummaryFacts(first_seq=1, last_seq=4, last_turn=1)
    calls = [CallFact(TURN, CALL, "mail.send", "ok", True)]
    texts = [
        V2_RENDERER.shorten_entry(ENTRIES[3], 200, VIEWS),
        V2_RENDERER.path(RESULT, VIEWS),
        V2_RENDERER.current_turn(VIEWS),
        V2_RENDERER.sources(VIEWS.sources.pool, VIEWS),
        V2_RENDERER.announce(RoundFacts(iteration=1, max_iterations=9, now=TS), VIEWS),
        V2_RENDERER.turn_card(TURN, ENTRIES, VIEWS, CONTEXT, LIMITS),
        V2_RENDERER.rounds_card((1, 1), 1, ENTRIES, VIEWS, CONTEXT, LIMITS),
        *V2_RENDERER.card_rows(ENTRIES, VIEWS),
        V2_RENDERER.collapsed_head(1, 1, ()),
        *V2_RENDERER.call_lines(calls, 900, VIEWS),
        V2_RENDERER.effects_line(calls),
        V2_RENDERER.summary_text("They met.", facts, VIEWS, 900, 100),
        V2_RENDERER.summary_request("They met.", ["[PRUNED t1]"], 90, 900, ""),
        V2_RENDERER.message_row("prompt", f"ar:{TURN}.user.prompt", "one\ntwo", 90, VIEWS),
        V2_RENDERER.title_request("Which ferry?", "At nine."),
        V2_RENDERER.preview("word " * 9_000, "text/plain", RESULT, VIEWS, for_programs=False).text,
        V2_RENDERER.preview("word " * 9_000, "text/plain", RESULT, VIEWS, for_programs=True).text,
        V2_RENDERER.data_preview("application/zip", 9, f"fi:{TURN}.files/a.zip", VIEWS).text,
    ]
    assert all(texts)
    assert not [text for text in texts if TURN in text or CALL in text]
    assert V2_RENDERER.path(RESULT, VIEWS) == "tc:t1.1.result"
    assert V2_RENDERER.has_messages(ENTRIES, VIEWS)


def test_an_entry_uses_only_the_aliases_that_are_known_at_it() -> None:
    before, after = NamesAt(VIEWS, 2), NamesAt(VIEWS, 3)
    assert (before.call(TURN, CALL), after.call(TURN, CALL)) == (CALL, "t1.1")
    assert (before.path(RESULT), after.path(RESULT)) == (RESULT, "tc:t1.1.result")
    assert (NamesAt(VIEWS, 0).turn(TURN), before.turn(TURN)) == (TURN, "t1")
    assert after.path(f"fi:{TURN}.files/a.md") == "fi:t1/a.md"
    for unknown in ("no path", "so:sources_pool[1]", "fi:turn_9.files/a.md"):
        assert after.path(unknown) == unknown
