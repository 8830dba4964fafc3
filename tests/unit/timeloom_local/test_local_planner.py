"""The next step of the local model, with the real router and placeholder text."""

import json

import pytest

from tests.harness.local_model import next_decision, reply_parts, router
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision
from timeloom_local.prompt_content import ListedSource, PromptCall, PromptContent, PromptFile
from timeloom_local.read_catalogue import OfferedTool
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
    params = {"name": "(^|/)none\\.txt$", "ignore_case": True}
    assert called(asked("Show me none.txt")) == ("react.rg", params)
    assert "there is no file of that name" in answered(
        asked("Show me none.txt", made("react.rg", status='{"files":[]}'))
    )
    status = '{"files":[{"logical_path":"fi:turn_1.files/none.txt"}]}'
    found = made("react.rg", json.dumps(params), status=status)
    assert called(asked("Show me none.txt", found)) == ("react.read", {"paths": ["fi:turn_1.files/none.txt"]})


def test_a_question_about_an_attachment_is_answered_with_a_quotation_and_its_source() -> None:
    question = "How long does the walk take?"
    assert called(asked(question, files=(PromptFile(path=PAPER, attached=True),))) == ("react.read", {"paths": [PAPER]})
    text = "The castle is old.\nThe walk takes two hours."
    situation = asked(question, made("react.read"), files=(PromptFile(path=PAPER, text=text, attached=True),))
    situation.sources.append(ListedSource(3, "paper.txt", PAPER))
    assert answered(situation) == "paper.txt says:\n\n> The walk takes two hours [[S:3]]"


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
    assert "has no “six”" in answered(asked('Replace "six" with "two" in notes.txt', files=(file,)))
    assert "replace “old”" not in answered(asked("Fix the grammar of notes.txt", files=(file,)))
    unread = made("react.read", failure="disk full")
    situation = asked("Delete the last line of notes.txt", unread, files=(PromptFile(path=NOTES),))
    assert "disk full" in answered(situation)


def test_it_means_the_file_that_was_last_at_hand() -> None:
    tool, params = called(asked('now replace "one" with "two" in it', files=(PromptFile(path=NOTES, text="one"),)))
    assert (tool, params["path"]) == ("react.patch", NOTES)


def test_a_plan_has_the_steps_that_were_listed_or_general_ones() -> None:
    assert called(asked("Open a plan: wake up, get up")) == (
        "react.plan",
        {"mode": "new", "steps": ["wake up", "get up"]},
    )
    tool, params = called(asked("Make a plan for a picnic in two steps"))
    assert (tool, len(str(params["steps"]).split("', '"))) == ("react.plan", 2)
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
    assert called(asked(message)) == ("react.rg", {"pattern": "\\btea", "ignore_case": True})
    status = '{"files":[{"logical_path":"fi:turn_1.files/a.md","matches":[{"line":3,"text":"green tea"}]}]}'
    assert "- a.md (line 3: green tea)" in answered(asked(message, made("react.rg", status=status)))
    for status in ('{"files":[]}', "?"):
        assert answered(asked(message, made("react.rg", status=status))) == "I found nothing: no file contains “tea”."
    assert "disk" in answered(asked(message, made("react.rg", failure="disk full")))


@pytest.mark.parametrize("message", ["Hello", "What is the largest planet?", "", "Tell me a story", "rm -rf /"])
def test_what_it_cannot_do_is_declined_with_what_it_can_do(message: str) -> None:
    assert "I am a small demo model" in answered(asked(message))
    assert "I can make a plan" in answered(asked(message))


def test_only_a_short_text_is_written_by_the_small_model() -> None:
    assert answered(asked("Write a poem about the moon")).startswith("words\n\nA very small demo model made up")


def test_an_older_version_of_a_file_is_no_match() -> None:
    status = '{"files":[{"logical_path":"fi:turn_1.files/notes.txt","matches":[{"line":1,"text":"tea"}]}]}'
    files = (PromptFile(path=NOTES), PromptFile(path="fi:turn_2.files/notes.txt"))
    situation = asked("Which file mentions tea?", made("react.rg", status=status), files=files)
    assert answered(situation) == "I found nothing: no file contains “tea”."


def test_what_was_said_is_quoted_and_nothing_is_invented() -> None:
    situation = asked("When is my flight?")
    situation.said = ["My flight leaves at 7:40.", "When is my flight?"]
    assert answered(situation) == "You said:\n\n> My flight leaves at 7:40"
    situation.message = "What is my cat called?"
    assert "you have not told me" in answered(situation)
    situation.message = "What did I just say?"
    assert "> When is my flight?" in answered(situation)
    situation.message = "What have I said so far?"
    assert "> My flight leaves at 7:40" in answered(situation)
    assert "you have not told me" in answered(asked("What was my first message?"))


def test_a_file_that_is_shown_in_part_is_not_changed() -> None:
    file = PromptFile(path=NOTES, text="one", is_cut=True)
    read = made("react.read", json.dumps({"paths": [NOTES]}))
    assert "too long" in answered(asked("Add two to notes.txt", read, files=(file,)))


def test_a_file_that_exists_is_not_replaced() -> None:
    situation = asked('Write "new" to notes.txt', files=(PromptFile(path=NOTES, text="old"),))
    assert "already exists" in answered(situation)
    situation.message = 'Overwrite notes.txt with "new"'
    assert called(situation) == ("react.write", {"path": "files/notes.txt", "content": "new"})


def test_without_a_tool_that_runs_programs_nothing_is_calculated() -> None:
    assert "lets me run none" in answered(asked("Calculate 2 + 2"))


def test_a_program_that_fails_is_reported() -> None:
    failed = made("exec_tools.python", failure="ZeroDivisionError: division by zero")
    assert "division by zero" in spoken(asked("Calculate 2 / 0", failed), (RUN,))


def test_a_plan_is_shown_and_a_step_that_it_lacks_is_not_marked() -> None:
    assert "1. a" in answered(asked("Show me the plan", plan=("a",)))
    assert "no step 9" in answered(asked("Step 9 is done", plan=("a",)))
    assert "There is no plan" in answered(asked("Step 1 is done"))


def test_at_the_last_round_it_answers_whatever_is_open() -> None:
    situation = asked('Save "a" to a.txt')
    situation.last_round = True
    assert answered(situation)


def test_a_user_who_says_stop_is_obeyed() -> None:
    assert answered(PromptContent(stop=True)) == "Stopped, as you asked."


def test_the_same_call_is_not_made_twice() -> None:
    call = made("react.write", '{"path":"files/a.txt","content":"a"}')
    assert answered(asked('Save "a" to a.txt', call, call)).startswith("I wrote a.txt")


def test_calls_that_it_did_not_ask_for_are_skipped() -> None:
    assert called(asked('Save "a" to a.txt', made("web.search", text="tea is hot.")))[0] == "react.write"


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
    assert decision == CallToolDecision("exec_tools.python", '{"contract": [], "prog_name": "calculation"}')
    parts = reply_parts(asked("Run a Python program that calculates 2 to the power of 10"), (RUN,))
    assert "<channel:code>\nprint(2 ** 10)\n" in "".join(part for part in parts if isinstance(part, str))


def test_routes_say_what_they_were_nearest_to() -> None:
    route = router().route("tell me the weather forecast", (WEATHER, MAIL))
    assert route
    assert (route.target, route.example) == ("weather.forecast", WEATHER.purpose)
    assert router().route("please help me", (WEATHER, MAIL)) is None


def test_a_decline_is_explained_once_in_a_conversation() -> None:
    first = answered(asked("Book a table for two"))
    assert "ANTHROPIC_API_KEY" in first
    again = asked("Book a table for three")
    again.exchanges = [("Book a table for two", first)]
    assert answered(again) == "I cannot do this, so I did nothing. Ask “What can you do?” for what I can do."


def test_steps_are_marked_by_their_words_and_the_open_ones_are_named() -> None:
    plan = ("book dentist", "renew passport")
    assert "Still open:\n\n2. renew passport" in answered(asked("done with the dentist one, tick it off", plan=plan))
    assert "No step is left open" in answered(asked("tick them all off", plan=plan))
    assert "has no step 7" in answered(asked("mark steps 1 and 7 as done", plan=plan))
    assert "which step you mean" in answered(asked("tick it off", plan=plan))
    assert "There is no plan" in answered(asked("tick it off"))
    assert "I have read this" in answered(asked("finished with the shed", plan=plan))


def test_that_number_is_the_result_of_the_last_answer() -> None:
    situation = asked("save that number to x.txt")
    situation.exchanges = [("what is 2 * 2", "I ran a small program.\n\nIt printed: **4**")]
    assert called(situation) == ("react.write", {"path": "files/x.txt", "content": "4"})
    situation.message = "I bought a lamp. Put it in x.txt"
    assert "What shall I write" in answered(situation)


def test_words_with_an_attachment_are_a_question_about_it() -> None:
    situation = asked("my kettle blinks red again", files=(PromptFile(path=PAPER, attached=True),))
    assert called(situation) == ("react.read", {"paths": [PAPER]})
