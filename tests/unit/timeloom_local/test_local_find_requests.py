"""Requests among other sentences, in people's words; what must not be carried out."""

import pytest

from tests.harness.local_model import intents
from timeloom_local.intents.edits import LineInsertion, TextReplacement
from timeloom_local.intents.kinds import (
    CalculateIntent,
    ChangeIntent,
    DeclineIntent,
    FileMention,
    Intent,
    PlanIntent,
    PlanStatusIntent,
    RecallIntent,
    SearchIntent,
    SmallTalkIntent,
    WriteIntent,
)
from timeloom_local.intents.limits import strip_limits
from timeloom_local.intents.parse_given import strip_signature
from timeloom_local.plan_steps import find_named_steps
from timeloom_local.text_rules import split_message

A_MD = FileMention(names=("a.md",))
PLAN = [("mow the lawn", "□"), ("trim the hedge", "□"), ("buy paint", "□"), ("buy brushes", "□"), ("sweep", "✓")]


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        ("The date moved. In a.md change Monday to Friday", ChangeIntent(A_MD, TextReplacement("Monday", "Friday"))),
        ("we ran out of tea so swap tea for milk in a.md", ChangeIntent(A_MD, TextReplacement("tea", "milk"))),
        ("change tea to milk in a.md because we ran out", ChangeIntent(A_MD, TextReplacement("tea", "milk"))),
        ('replace "tea" with "milk" in a.md and leave the rest', ChangeIntent(A_MD, TextReplacement("tea", "milk"))),
        ("I got it wrong in a.md, it should be Kim not Jim", ChangeIntent(A_MD, TextReplacement("Jim", "Kim"))),
        ("i wrote Jim in a.md but it should be Kim", ChangeIntent(A_MD, TextReplacement("Jim", "Kim"))),
        ("two more for a.md: tea, milk", ChangeIntent(A_MD, LineInsertion(text="tea\nmilk"), creates=True)),
        ("at the end of a.md please write: tea", ChangeIntent(A_MD, LineInsertion(text="tea"), creates=True)),
        ("Hi, save it to a.md, thanks. Here it is:\n\n- one\n\nThanks, Jo", WriteIntent(file=A_MD, content="- one")),
        ("Moving soon. Make a plan: pack, print it", PlanIntent(goal="pack, print it", steps=("pack", "print it"))),
        ("My steps are: pack, clean. Make that into a plan", PlanIntent(steps=("pack", "clean"))),
        ("I noted something about Rosa somewhere, which file was it?", SearchIntent(words="Rosa")),
        ("search our chat for what I said about Rosa", RecallIntent("topic", "Rosa", is_explicit=True)),
        ("Just so you know, the plumber asked 320", SmallTalkIntent("statement")),
        ("my boss waits, so book a table for us", DeclineIntent("unsupported")),
    ],
)  # fmt: skip
def test_a_request_is_found_among_other_words(message: str, intent: Intent) -> None:
    assert intents(message) == [intent]


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("my scores were 71, 84 and 79... can you give me the average?", "statistics.mean([71, 84, 79])"),
        ("I paid 12.50 for lunch and 8 for the taxi. What's the total?", "sum([12.50, 8])"),
        ("for 3 nights we paid 80, 95 and 110, what is the sum?", "sum([80, 95, 110])"),
        ("It was 250 and now 189, what's the difference?", "abs(250 - 189)"),
        ("There were 5 of us. Compute (10 + 5) / 5 so I know what each owes", "(10 + 5) / 5"),
        ("it is 120, so how much is 30% off 120", "120 * (100 - 30) / 100"),
    ],
)
def test_a_calculation_is_found_in_prose(message: str, printed: str) -> None:
    (found,) = intents(message)
    assert isinstance(found, CalculateIntent)
    assert printed in found.program


@pytest.mark.parametrize(
    "message",
    [
        "I don't want you to write this in a.md: secret",
        "If it rains, put these in a.md: umbrella, coat",
        "don't add milk to a.md, just think",
        "did you write this in a.md: milk, eggs?",
        "my wife told me to never change Bob to Rob in a.md",
        "change it to Friday in a.md",
        "replace the old address with the new one in a.md",
        "put my address in a.md",
        "add 3 more reasons to a.md",
        "put tomorrow's weather in a.md",
        "write the capital of France to a.md",
        'replace "tea" with "milk" or so in a.md',
        "I was born in 1990, 2 kids, 1 dog. Which city is the most expensive?",
        "I paid 1 and 2. You paid 3 and 4. What's the total?",
        "1, 2 and 4: give me the difference",
        "Call me 555-0101 and 555-0102. " * 13,
    ],
)
def test_nothing_is_carried_out_without_a_certain_request(message: str) -> None:
    assert not [one for one in intents(message) if isinstance(one, WriteIntent | ChangeIntent | CalculateIntent)]


def test_a_pronoun_stands_for_the_answer_before_it() -> None:
    question, written = intents("When is lunch? Write that sentence into a.md")
    assert written == WriteIntent(file=A_MD, uses_result=True)
    recalled, written = intents("write down what I told you about Rosa in a.md")
    assert recalled == RecallIntent("topic", "Rosa", is_explicit=True)
    assert written == WriteIntent(file=A_MD, uses_result=True, appends=True)
    assert question != recalled


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        ("the second one is done", PlanStatusIntent("done", 2)),
        ("mark step 1 and 2 as done", PlanStatusIntent("done", words="#1 #2")),
        ("finished with the lawn", PlanStatusIntent("done", words="finished with the lawn", is_certain=False)),
        ("what do i still have to do?", PlanStatusIntent("show")),
    ],
)
def test_a_step_is_marked_in_any_words(message: str, intent: Intent) -> None:
    assert intents(message) == [intent]


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ("mowed the lawn", [1]),
        ("the hedge and the lawn", [2, 1]),
        ("bought it", []),
        ("buy", []),
        ("sweep", []),
        ("", []),
    ],
)
def test_steps_are_found_by_their_words_if_it_is_clear_which(words: str, steps: list[int]) -> None:
    assert find_named_steps(words, PLAN) == steps


def test_limits_and_signatures_are_no_content() -> None:
    assert strip_limits("change a to b in c.txt (only that one!)") == "change a to b in c.txt"
    assert strip_limits("add a to b.txt, don't touch c.txt") == "add a to b.txt"
    assert strip_limits("leave everything as it is") == "leave everything as it is"
    assert strip_signature("- a\n\nMany thanks,\nJo") == "- a"
    assert strip_signature("- a\n- b") == "- a\n- b"


def test_sentences_end_neither_in_numbers_nor_in_titles() -> None:
    assert split_message("Pay 3.50 to Dr. Who. Then 79... ok? Yes") == ["Pay 3.50 to Dr. Who", "Then 79", "ok", "Yes"]
