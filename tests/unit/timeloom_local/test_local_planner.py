"""The next step of the local model, with the real router and placeholder text."""

import json

import pytest

from tests.harness.local_model import next_decision, reply_parts, router
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision
from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.read_prompt import ListedSource, PromptCall, PromptContent, PromptFile
from timeloom_local.reply import Slot

TURN = "turn_2"
NOTES = "fi:turn_1.files/notes.txt"
PAPER = f"fi:{TURN}.user.attachments/paper.txt"


def asked(
    message: str, *calls: PromptCall, files: tuple[PromptFile, ...] = (), plan: tuple[str, ...] = ()
) -> PromptContent:
    return PromptContent(
        message=message,
        turn=TURN,
        calls=list(calls),
        files={file.path: file for file in files},
        plan=[(step, "□") for step in plan],
    )


def called(situation: PromptContent) -> tuple[str, dict[str, object]]:
    decision = next_decision(situation)
    assert isinstance(decision, CallToolDecision)
    return decision.tool_id, json.loads(decision.params)


def answered(situation: PromptContent) -> str:
    decision = next_decision(situation)
    assert isinstance(decision, CompleteDecision)
    return decision.final_answer


def spoken(situation: PromptContent, offers: tuple[OfferedTool, ...]) -> str:
    decision = next_decision(situation, offers)
    assert isinstance(decision, CompleteDecision)
    return decision.final_answer


def made(tool_id: str, params: str = "{}", *, failure: str = "", status: str = "", text: str = "") -> PromptCall:
    return PromptCall(tool_id=tool_id, params=params, done=True, failure=failure, status=status, text=text)


def test_text_that_the_user_gives_is_written_as_it_is() -> None:
    assert called(asked('Save "call mom" to x.txt')) == ("react.write", {"path": "files/x.txt", "content": "call mom"})


def test_text_that_the_user_describes_is_written_by_the_model() -> None:
    assert called(asked("Write a poem about tea into tea.md")) == (
        "react.write",
        {"path": "files/tea.md", "content": "words\n"},
    )


def test_a_file_is_read_before_it_is_spoken_of() -> None:
    file = PromptFile(path=NOTES)
    assert called(asked("Show me notes.txt", files=(file,))) == ("react.read", {"paths": [NOTES]})
    call = made("react.read", json.dumps({"paths": [NOTES]}))
    assert "one\ntwo" in answered(asked("Show me notes.txt", call, files=(PromptFile(path=NOTES, text="one\ntwo"),)))


@pytest.mark.parametrize(
    "message", ["Create a file hello.py that prints hello", "I need a new file a.csv with the line x,y"]
)
def test_a_file_that_nobody_knows_is_written_where_nobody_wants_to_look_at_it(message: str) -> None:
    assert called(asked(message))[0] == "react.write"


def test_who_asks_what_can_be_done_is_told_it_in_words_for_people() -> None:
    told = spoken(asked("What can you do?"), (WEATHER,))
    assert "- Tells the weather forecast for a city." in told
    assert "weather.forecast" not in told
    assert "tools of its own" not in spoken(asked("What can you do?"), ())


def test_a_plan_of_an_earlier_turn_is_not_marked_by_the_one_that_follows() -> None:
    decision = next_decision(asked('Write "a" to a.txt, then write "b" to b.txt, then show a.txt', plan=("old",)))
    assert isinstance(decision, CallToolDecision)
    assert (decision.tool_id, decision.notes) == ("react.plan", "")


def test_a_file_that_nobody_knows_is_looked_for_once() -> None:
    path = f"fi:{TURN}.files/none.txt"
    assert called(asked("Show me none.txt")) == ("react.read", {"paths": [path]})
    call = made("react.read", json.dumps({"paths": [path]}), failure="there is no file none.txt")
    assert answered(asked("Show me none.txt", call)) == "I could not do this: there is no file none.txt."


def test_a_question_about_an_attachment_is_answered_with_a_quotation_and_its_source() -> None:
    question = "How long does the walk take?"
    assert called(asked(question, files=(PromptFile(path=PAPER, attached=True),))) == ("react.read", {"paths": [PAPER]})
    text = "The castle is old.\nThe walk takes two hours."
    situation = asked(question, made("react.read"), files=(PromptFile(path=PAPER, text=text, attached=True),))
    situation.sources.append(ListedSource(3, "paper.txt", PAPER))
    assert answered(situation) == "words\n\n> The walk takes two hours [[S:3]]"


def test_an_attachment_that_was_read_answers_later_questions_too() -> None:
    old = PromptFile(path="fi:turn_1.user.attachments/p.txt", text="The walk takes two hours.", attached=True)
    situation = asked("How long is the walk?", made("react.read"), files=(old,))
    assert "> The walk takes two hours" in answered(situation)


def test_an_edit_needs_the_text_in_sight_and_is_a_diff() -> None:
    message = 'Replace "one" with "two" in notes.txt'
    assert called(asked(message, files=(PromptFile(path=NOTES),))) == ("react.read", {"paths": [NOTES]})
    tool, params = called(asked(message, made("react.read"), files=(PromptFile(path=NOTES, text="one\n"),)))
    assert tool == "react.patch"
    assert params == {"path": NOTES, "patch": "--- before\n+++ after\n@@ -1 +1 @@\n-one\n+two\n"}
    done = asked(message, made("react.read"), made("react.patch"), files=(PromptFile(path=NOTES),))
    assert answered(done) == "I changed notes.txt: replaced “one” by “two”."


def test_an_edit_that_cannot_be_made_is_not_tried() -> None:
    file = PromptFile(path=NOTES, text="one\n")
    assert "does not hold" in answered(asked('Replace "six" with "two" in notes.txt', files=(file,)))
    assert "replace “old”" not in answered(asked("Fix the grammar of notes.txt", files=(file,)))
    unread = made("react.read", failure="there is no file notes.txt")
    assert "there is no file" in answered(asked("Delete the last line of notes.txt", unread))


def test_it_means_the_file_that_was_last_at_hand() -> None:
    tool, params = called(asked('now replace "one" with "two" in it', files=(PromptFile(path=NOTES, text="one"),)))
    assert (tool, params["path"]) == ("react.patch", NOTES)


def test_a_plan_has_the_steps_that_were_listed_or_those_of_the_model() -> None:
    assert called(asked("Open a plan: wake up, get up")) == (
        "react.plan",
        {"mode": "new", "steps": ["wake up", "get up"]},
    )
    assert called(asked("Make a plan for a picnic")) == ("react.plan", {"mode": "new", "steps": ["one", "two"]})
    assert "1. wake up" in answered(asked("Open a plan: wake up", made("react.plan"), plan=("wake up",)))


def test_a_plan_is_ticked_off_and_closed_by_word() -> None:
    decision = next_decision(asked("Step 2 is done", plan=("a", "b")))
    assert isinstance(decision, CompleteDecision)
    assert decision.notes == "✓ [2]"
    assert called(asked("Please close the plan", plan=("a",))) == ("react.plan", {"mode": "close"})


def test_several_wishes_become_a_plan_that_is_followed() -> None:
    message = 'Write "a" to a.txt, then write "b" to b.txt, then show a.txt'
    steps = ('Write "a" to a.txt', 'write "b" to b.txt', "show a.txt")
    assert called(asked(message)) == ("react.plan", {"mode": "new", "steps": list(steps)})
    plan, first = made("react.plan"), made("react.write", '{"path":"files/a.txt","content":"a"}')
    decision = next_decision(asked(message, plan, first, plan=steps))
    assert isinstance(decision, CallToolDecision)
    assert (decision.tool_id, decision.notes) == ("react.write", "✓ [1]\n… [2]")
    failed = made("react.write", failure="disk full")
    decision = next_decision(asked(message, plan, first, failed, plan=steps))
    assert isinstance(decision, CompleteDecision)
    assert decision.notes == "✓ [1]\n✗ [2]"
    assert "disk full" in decision.final_answer


def test_what_a_search_found_is_listed() -> None:
    message = 'Search the files for "tea"'
    assert called(asked(message)) == ("react.rg", {"pattern": "tea", "ignore_case": True})
    status = '{"files":[{"logical_path":"fi:turn_1.files/a.md","matches":[{"line":3,"text":"green tea"}]}]}'
    assert "- a.md (line 3: green tea)" in answered(asked(message, made("react.rg", status=status)))
    assert answered(asked(message, made("react.rg", status='{"files":[]}'))) == "Nothing was found."
    assert answered(asked(message, made("react.rg", status="?"))) == "The search is done."


@pytest.mark.parametrize("message", ["Hello", "What is the largest planet?", "", "Tell me a story"])
def test_what_needs_no_tool_is_answered_by_the_model(message: str) -> None:
    assert answered(asked(message)) == "words"


def test_at_the_last_round_it_answers_whatever_is_open() -> None:
    situation = asked('Save "a" to a.txt')
    situation.last_round = True
    assert answered(situation)


def test_a_user_who_says_stop_is_obeyed() -> None:
    assert answered(PromptContent(stop=True)) == "Stopped, as you asked."


def test_the_same_call_is_not_made_twice() -> None:
    call = made("react.write", '{"path":"files/a.txt","content":"a"}')
    assert answered(asked('Save "a" to a.txt', call, call)) == "I wrote the file."


def test_calls_that_it_did_not_ask_for_lead_to_an_answer() -> None:
    assert answered(asked('Save "a" to a.txt', made("web.search", text="tea is hot.")))


WEATHER = OfferedTool(
    tool_id="weather.forecast",
    purpose="Tells the weather forecast for a city.",
    schema='{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}',
)
MAIL = OfferedTool(
    tool_id="mail.send",
    purpose="Sends an email to somebody.",
    schema='{"properties":{"to":{"type":"string"},"urgent":{"type":"boolean"}},"required":["to","urgent"]}',
    examples=('{"to":"a","urgent":false}',),
)
RUN = OfferedTool(tool_id="exec_tools.python", purpose="Runs a Python program that calculates.", schema="no schema")


def test_a_tool_that_nobody_has_heard_of_is_found_by_its_own_words() -> None:
    decision = next_decision(asked('What will the weather forecast say for "Oslo"?'), (WEATHER, MAIL))
    assert decision == CallToolDecision("weather.forecast", '{"city": "Oslo"}')
    decision = next_decision(asked("Send an email to Kim, it is urgent"), (WEATHER, MAIL))
    assert decision == CallToolDecision("mail.send", "{}")


def test_parameters_of_a_foreign_tool_are_written_under_its_schema() -> None:
    (slot,) = [part for part in reply_parts(asked("Send an email to Kim"), (MAIL,)) if isinstance(part, Slot)]
    assert '"\\"to\\":"' in slot.generation.grammar
    assert '"true" | "false"' in slot.generation.grammar


def test_a_tool_that_runs_code_gets_a_program() -> None:
    decision = next_decision(asked("Run a Python program that calculates 2 to the power of 10"), (RUN,))
    assert decision == CallToolDecision("exec_tools.python", "{}")


def test_routes_say_what_they_were_nearest_to() -> None:
    route = router().route("please help me", ())
    assert (route.target, route.example) == ("help", "Help")
    route = router().route("please store 'x' as y.txt", (), frozenset({"answer", "help"}))
    assert (route.target, route.example) == ("answer", "")
