"""Words that refer to a text instead of being one, and typing errors in the words of commands."""

import asyncio

import pytest

from bench.demo.requests import DemoRequest, OutcomeChecks
from bench.demo.score import format_transcript, judge_requests
from tests.harness import local_model
from tests.harness.local_model import intents
from timeloom_local.intents.edits import LineInsertion, LineRemoval, TextReplacement
from timeloom_local.intents.kinds import (
    CalculateIntent,
    ChangeIntent,
    DeclineIntent,
    FileMention,
    Intent,
    PlanIntent,
    ReadIntent,
    SearchIntent,
    WriteIntent,
)
from timeloom_local.intents.typing_errors import count_errors, find_corrections

A_MD = FileMention(names=("a.md",))


def failures_of(request: DemoRequest) -> list[str]:
    async def body() -> list[str]:
        judged = judge_requests(local_model.model(), [request])
        return [format_transcript(one) async for one in judged if one.failures]

    return asyncio.run(body())


@pytest.mark.parametrize(
    "message",
    [
        "put those opening hours in a.md",
        "add her to a.md",
        "put him on the list in a.md",
        "add the same three steps to a.md",
        "write these names to a.md",
        "save the following in a.md",
        "put this wonderful quote in a.md",
        "change Monday to that day in a.md",
        "add both of them to a.md",
        "append the above to a.md",
    ],
)
def test_a_reference_is_never_written_as_content(message: str) -> None:
    for request in (
        DemoRequest(id=1, request=message, sensible="", checks=OutcomeChecks(must_not_call=("react.write",))),
        DemoRequest(
            id=2,
            request=message,
            sensible="",
            files={"a.md": "Monday\n"},
            checks=OutcomeChecks(file_unchanged=("a.md",)),
        ),
    ):
        assert not failures_of(request)


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        ("add this to a.md: that old coat", ChangeIntent(A_MD, LineInsertion(text="that old coat"))),
        ('add "that one" to a.md', ChangeIntent(A_MD, LineInsertion(text="that one", is_quoted=True))),
        ("add eggs to the list in a.md", ChangeIntent(A_MD, LineInsertion(text="eggs"))),
        ("write that was fun to a.md", WriteIntent(file=A_MD, content="that was fun")),
        ("write this train is late to a.md", WriteIntent(file=A_MD, content="this train is late")),
    ],
)
def test_words_that_only_begin_like_a_reference_are_written(message: str, intent: Intent) -> None:
    assert intents(message) == [intent]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("oh and Dolores is coming too, put her on the list in a.md", "Dolores"),
        ("We invited Kim Lee, add her to a.md", "Kim Lee"),
        ("we're out of milk, add it to a.md", "milk"),
        ("Ana and Bob said yes, add them to a.md", "Ana\nBob"),
    ],
)
def test_a_pronoun_means_what_the_words_before_it_name(message: str, text: str) -> None:
    (intent,) = intents(message)
    assert isinstance(intent, WriteIntent | ChangeIntent)
    written = intent.content if isinstance(intent, WriteIntent) else intent.edit
    assert text in (written, written.text if isinstance(written, LineInsertion) else "")
    assert not intent.reference


def test_two_names_leave_it_open_whom_a_pronoun_means() -> None:
    (intent,) = intents("I saw Ana with Kim, add her to a.md")
    assert not isinstance(intent, ChangeIntent) or intent.reference


@pytest.mark.parametrize(
    ("conversation", "message", "content"),
    [
        (("Our opening hours are 10 to 18.",), "Put those opening hours in a.md", "10 to 18"),
        (
            ("Our opening hours are 9 to 12.", "Sorry, our opening hours are 10 to 18."),
            "write those hours to a.md",
            "18",
        ),
        (("Make a plan: buy paint, sand the door",), "save these two steps in a.md", "buy paint\nsand the door"),
        (("Use a program to calculate 125 * 16.",), "put that number in a.md", "2000"),
        ((), "Make a plan for the hall (sweep it, paint it) and save the same steps in a.md", "sweep it\npaint it"),
    ],
)
def test_a_reference_is_resolved_from_the_conversation(
    conversation: tuple[str, ...], message: str, content: str
) -> None:
    checks = OutcomeChecks(file_contains={"a.md": content}, answer_excludes=("those", "these two", "the same"))
    request = DemoRequest(id=1, conversation=conversation, request=message, sensible="", checks=checks)
    assert not failures_of(request)


def test_a_count_of_steps_that_does_not_fit_the_plan_is_asked_about() -> None:
    checks = OutcomeChecks(must_not_call=("react.write",), answer_contains_any=("?",))
    said = ("Make a plan: buy paint, sand the door",)
    request = DemoRequest(id=1, conversation=said, request="save these five steps in a.md", sensible="", checks=checks)
    assert not failures_of(request)


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        ("cahnge teh word 'tea' to 'milk' in a.md", ChangeIntent(A_MD, TextReplacement("tea", "milk"))),
        ("serch my fiels for invoice 4471", SearchIntent(words="invoice 4471")),
        ("pls creat a fiel a.md wiht teh text hello", WriteIntent(file=A_MD, content="hello")),
        ("rmeove the lien about milk form a.md", ChangeIntent(A_MD, LineRemoval(words="milk"))),
        ("sohw me a.md", ReadIntent(file=A_MD)),
        ("can you tel me waht is in a.md", ReadIntent(file=A_MD)),
        ("wriet teh cat sat into a.md", WriteIntent(file=A_MD, content="teh cat sat")),
    ],
)
def test_typing_errors_in_command_words_are_corrected_and_content_stays(message: str, intent: Intent) -> None:
    assert intents(message) == [intent]


def test_a_plan_with_typing_errors_keeps_its_steps_as_typed() -> None:
    (plan,) = intents("can u mak a plann for my revison pls: 1) reread teh chaptr 2) do past paper 2019 3) sleep")
    assert isinstance(plan, PlanIntent)
    assert plan.steps == ("reread teh chaptr", "do past paper 2019", "sleep")


def test_a_list_of_numbers_keeps_its_last_one_before_other_words() -> None:
    (intent,) = intents("calcualte the avrage of 14, 17, 9 and 16 w/ a python progam")
    assert isinstance(intent, CalculateIntent)
    assert "[14, 17, 9, 16]" in intent.program


@pytest.mark.parametrize("text", ["fine wine", "plant a plane", "film the fire", "live like them", "white flies", ""])
def test_common_words_are_no_typing_errors(text: str) -> None:
    assert find_corrections(text) == []


def test_swapped_letters_count_as_one_error() -> None:
    assert count_errors("teh", "the", 1) == 1
    assert count_errors("calclate", "calculate", 2) == 1
    assert count_errors("a", "word", 1) == 2


def test_a_message_that_is_still_not_understood_is_declined() -> None:
    assert isinstance(intents("aply for teh job")[0], DeclineIntent)


@pytest.mark.parametrize(
    ("message", "expression"),
    [
        ("My tenant pays 840 and the rent goes up by 3.5 percent. What is the new rent?", "840 * (100 + 3.5) / 100"),
        ("what is a tip of 12% on 45.60?", "45.60 * 12 / 100"),
        ("my bill is 45.60, how much with a 12% tip", "45.60 * (100 + 12) / 100"),
        ("How much is 15% off 80?", "80 * (100 - 15) / 100"),
        ("now divide that result by 8, with a program again", "LAST_RESULT / 8"),
    ],
)
def test_percentages_and_the_last_result_are_calculated_from_prose(message: str, expression: str) -> None:
    (intent,) = intents(message)
    assert isinstance(intent, CalculateIntent)
    assert expression in intent.program


@pytest.mark.parametrize(
    ("said", "answer"), [(("Use a program to calculate 125 * 16.",), "250"), ((), "no result of a calculation")]
)
def test_a_calculation_goes_on_with_the_last_result_if_there_is_one(said: tuple[str, ...], answer: str) -> None:
    checks = OutcomeChecks(answer_contains_any=(answer,))
    assert not failures_of(
        DemoRequest(id=1, conversation=said, request="now divide that result by 8", sensible="", checks=checks)
    )


@pytest.mark.parametrize(
    "message",
    [
        'Kindly put the following sentence in a file named a.md: "It is off." Thank you very much in advance.',
        "Save this as a.md, exactly these two lines:\nIt is off.\nBye",
    ],
)
def test_text_after_a_colon_is_written_without_the_words_around_it(message: str) -> None:
    request = DemoRequest(
        id=1,
        request=message,
        sensible="",
        checks=OutcomeChecks(file_equals={"a.md": "It is off." + ("\nBye" if "lines" in message else "")}),
    )
    assert not failures_of(request)


def test_a_sentence_of_an_attachment_is_saved() -> None:
    request = DemoRequest(
        id=1,
        attachments={"info.txt": "There are twelve meetings. The deadline is 21 May. Late papers lose a grade.\n"},
        request="Find the sentence about the deadline in the attached text and save it in a.md",
        sensible="",
        checks=OutcomeChecks(file_equals={"a.md": "The deadline is 21 May."}),
    )
    assert not failures_of(request)


def test_what_was_not_said_about_a_name_is_not_claimed() -> None:
    request = DemoRequest(
        id=1,
        conversation=("I have two cats, Minka and Paul.", "Minka is 14 years old."),
        request="how old is Paul, did i tell you?",
        sensible="",
        checks=OutcomeChecks(answer_contains_any=("not told me that about Paul",)),
    )
    assert not failures_of(request)
