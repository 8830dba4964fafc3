"""The local model's parsing of messages into intents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom_local.intents.calculations import TooLargeCalculation, parse_calculation, parse_file_calculation
from timeloom_local.intents.edits import (
    Edit,
    EditRefusal,
    LineInsertion,
    LineRemoval,
    TextReplacement,
    ValueChange,
    apply_edit,
    describe_edit,
)
from timeloom_local.intents.kinds import (
    CalculateIntent,
    ChangeIntent,
    DeclineIntent,
    FileMention,
    HelpIntent,
    Intent,
    PlanIntent,
    PlanStatusIntent,
    QuestionIntent,
    ReadIntent,
    RecallIntent,
    SearchIntent,
    SmallTalkIntent,
    WriteIntent,
)
from timeloom_local.intents.parse_message import parse_message
from timeloom_local.intents.wording import correct_keywords, correct_verb, is_foreign, is_one_error, strip_politeness
from timeloom_local.plan_templates import general_steps

A_MD = FileMention(names=("a.md",))
TEXT = "# List\nmilk: 2\ntea\nTea again\n"


def parse(message: str) -> Intent:
    (clause,) = parse_message(message)
    return clause.intent


@pytest.mark.parametrize(
    ("message", "request_"),
    [
        ("Could you please add tea to a.md?", "add tea to a.md"),
        ("hey, would you mind adding tea to a.md for me, thanks", "add tea to a.md"),
        ("I'd like you to show a.md", "show a.md"),
        ("ok now replace tea please, with rum", "replace tea, with rum"),
        ("What is in a.md?", "What is in a.md?"),
    ],
)
def test_politeness_is_no_part_of_a_request(message: str, request_: str) -> None:
    assert strip_politeness(message) == request_


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("shwo a.md", "show a.md"), ("ad tea", "add tea"), ("serach", "search"), ("bread", "bread"), ("zzzz", "zzzz")],
)
def test_a_typing_error_in_the_verb_is_corrected(typed: str, meant: str) -> None:
    assert correct_verb(typed) == meant


def test_words_of_their_own_are_no_typing_errors() -> None:
    assert correct_keywords("fill in the form about flies") == "fill in the form about flies"
    assert correct_keywords("make a plna") == "make a plan"


def test_one_error_is_a_letter_or_two_swapped_ones() -> None:
    assert all(is_one_error("show", other) for other in ("shw", "shoow", "shiw", "shwo"))
    assert not any(is_one_error("show", other) for other in ("show", "sow2", "w", "hsow1"))


@pytest.mark.parametrize("message", ["Zeige mir die Datei", "¿Dónde está?", "何ですか", "Montre moi le fichier"])
def test_other_languages_are_recognized(message: str) -> None:
    assert is_foreign(message)
    assert parse(message) == DeclineIntent("language")


@pytest.mark.parametrize(
    ("message", "edit", "after"),
    [
        (
            'replace "milk" with "oat milk" in a.md',
            TextReplacement("milk", "oat milk"),
            "# List\noat milk: 2\ntea\nTea again\n",
        ),
        ("change milk to water in a.md", TextReplacement("milk", "water"), "# List\nwater: 2\ntea\nTea again\n"),
        ('in a.md use "rum" instead of "tea"', TextReplacement("tea", "rum"), "# List\nmilk: 2\nrum\nTea again\n"),
        ("substitute rum for tea in a.md", TextReplacement("tea", "rum"), "# List\nmilk: 2\nrum\nTea again\n"),
        ("change the milk in a.md from 2 to 3", TextReplacement("2", "3"), "# List\nmilk: 3\ntea\nTea again\n"),
        ("a.md: tea -> rum", TextReplacement("tea", "rum"), "# List\nmilk: 2\nrum\nTea again\n"),
        ("set milk to 5 in a.md", ValueChange("milk", "5"), "# List\nmilk: 5\ntea\nTea again\n"),
        ("change the tea to rum in a.md", ValueChange("tea", "rum"), "# List\nmilk: 2\nrum\nTea again\n"),
        ('set the title to "Shop" in a.md', ValueChange("title", "Shop"), "# Shop\nmilk: 2\ntea\nTea again\n"),
        ('append "rice" to a.md', LineInsertion(text="rice", is_quoted=True), TEXT + "rice\n"),
        ("add rice, salt and oil to a.md", LineInsertion(text="rice, salt and oil"), TEXT + "rice\nsalt\noil\n"),
        (
            'add the line "# Top" at the top of a.md',
            LineInsertion(text="# Top", at_top=True, is_line=True, is_quoted=True),
            "# Top\n" + TEXT,
        ),
        ("delete the last line of a.md", LineRemoval(place=-1), "# List\nmilk: 2\ntea\n"),
        ("remove line 2 from a.md", LineRemoval(place=2), "# List\ntea\nTea again\n"),
        ("remove the first item from a.md", LineRemoval(place=1, is_line=False), "# List\ntea\nTea again\n"),
        (
            "remove the lines about tea from a.md",
            LineRemoval(words="tea", removes_all=True),
            "# List\nmilk: 2\nTea again\n",
        ),
        ("take tea off a.md", LineRemoval(words="tea", is_line=False), "# List\nmilk: 2\nTea again\n"),
        ("replace MILK with rum in a.md", TextReplacement("MILK", "rum"), "# List\nrum: 2\ntea\nTea again\n"),
    ],
)
def test_edits_are_parsed_and_applied(message: str, edit: Edit, after: str) -> None:
    assert parse(message) == ChangeIntent(A_MD, edit)
    assert apply_edit(TEXT, edit) == after
    assert describe_edit(edit)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (TextReplacement("rum", "gin"), "no “rum”"),
        (TextReplacement("tea", "tea"), "already"),
        (LineRemoval(words="again milk"), "no “again milk”"),
        (LineRemoval(words="e"), "no “e”"),
        (LineRemoval(place=9), "only 4 lines"),
        (LineRemoval(place=9, is_line=False), "only 3 items"),
        (ValueChange("sugar", "1"), "which words"),
    ],
)
def test_an_edit_that_does_not_apply_is_refused_with_its_reason(edit: Edit, reason: str) -> None:
    refused = apply_edit(TEXT, edit)
    assert isinstance(refused, EditRefusal)
    assert reason in refused.reason


@pytest.mark.parametrize(
    ("text", "edit", "after"),
    [
        ('{"host": "a", "port": 1}', ValueChange("host", "b"), '{"host": "b", "port": 1}'),
        ("The fee is 4 euros. Pay.", ValueChange("fee", "5 euros"), "The fee is 5 euros. Pay."),
        ("Tea is hot.\n", TextReplacement("tea", "rum"), "Rum is hot.\n"),
        ("apples\n", TextReplacement("apple", "pear"), "pears\n"),
        ("- a\n- b\n", LineInsertion(text="c"), "- a\n- b\n- c\n"),
        ("1. a\n2. b\n", LineInsertion(text="c and d"), "1. a\n2. b\n3. c\n4. d\n"),
        ("- [x] a\n", LineInsertion(text="b"), "- [x] a\n- [ ] b\n"),
        ("# T\n- a\n", LineInsertion(text="b", at_top=True), "# T\n- b\n- a\n"),
        ("- a\n", LineInsertion(text="b", is_line=True), "- a\nb\n"),
        ("", LineInsertion(text="b"), "b\n"),
        ("This is no list at all.\n", LineInsertion(text="c and d"), "This is no list at all.\nc and d\n"),
        ("This is a very long line.\n", LineRemoval(words="very", is_line=False), "This is a long line.\n"),
    ],
)  # fmt: skip
def test_an_edit_keeps_the_form_of_the_file(text: str, edit: Edit, after: str) -> None:
    assert apply_edit(text, edit) == after


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("What is 17 * 23 - 4?", "print(17 * 23 - 4)\n"),
        ("use a program to compute 2^10", "print(2 ** 10)\n"),
        ("what's seven times eight", "print(7 * 8)\n"),
        ("two hundred and five plus 1,000", "print(205 + 1000)\n"),
        ("the sum of 3 and 4", "print(sum([3, 4]))\n"),
        ("add 3 to 5", "print(3 + 5)\n"),
        ("subtract 5 from 12", "print(12 - 5)\n"),
        ("add up the numbers from 1 to 100", "print(sum(n for n in range(1, 100 + 1)))\n"),
        ("the square of 15", "print(15 ** 2)\n"),
        ("run a program that counts to 3", "print(*range(1, 3 + 1), sep=', ')\n"),
        ("how many r's are in strawberry", "print('strawberry'.lower().count('r'))\n"),
        ('run a program that prints "hi"', "print('hi')\n"),
    ],
)
def test_a_calculation_becomes_a_program(text: str, program: str) -> None:
    assert parse_calculation(text) == program


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("15% of 80", "12"),
        ("80 plus 10%", "88"),
        ("25% off 80", "60"),
        ("the average of 4, 8 and 15", "9"),
        ("the square root of 144", "12"),
        ("5!", "120"),
        ("is 97 prime?", "97 is a prime number"),
        ("the first 5 primes", "2, 3, 5, 7, 11"),
        ("the 10th prime number", "29"),
        ("primes below 10", "2, 3, 5, 7"),
        ("the first six fibonacci numbers", "0, 1, 1, 2, 3, 5"),
        ("the 10th fibonacci number", "34"),
        ("the first 3 squares", "1, 4, 9"),
        ("the sum of the first 3 odd numbers", "9"),
        ("the sum of the first 3 even numbers", "12"),
        ("the sum of the first 3 prime numbers", "10"),
        ("the sum of the first 4 numbers", "10"),
        ("the sum of even numbers from 1 to 10", "30"),
        ("divide 1 by 8", "0.125"),
        ("0.1 + 0.2", "0.3"),
        ("double 21", "42"),
        ("the difference between 3 and 10", "7"),
        ("the greatest common divisor of 12 and 18", "6"),
        ("30 celsius to fahrenheit", "86"),
        ("86 F in C", "30"),
        ("convert 2 hours to minutes", "120"),
        ("how many minutes are in a day?", "1440"),
        ("how many hours are there in 2 days", "48"),
        ("numbers from 3 to 5", "3, 4, 5"),
        ('how many words are in "a b c"', "3"),
        ('count the letters in "a b c"', "3"),
        ('how many characters in "a b"', "3"),
        ('reverse "abc"', "cba"),
    ],
)
def test_the_program_of_a_calculation_prints_its_result(
    text: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = parse_calculation(text)
    assert isinstance(program, str)
    exec(program, {})
    assert capsys.readouterr().out.strip() == printed


@pytest.mark.parametrize(
    "text", ["9**9**9**9", "2**100000", "(1+1)**99", "500!", "1" * 60 + "+1", "primes below 9999999"]
)
def test_a_calculation_beyond_its_bounds_is_not_run(text: str) -> None:
    assert parse_calculation(text) == TooLargeCalculation()
    assert parse(f"Calculate {text}") == DeclineIntent("too_large")


@pytest.mark.parametrize(
    "text", ["", "5", "2024-01-01", "555-1234", "add milk and eggs", "1 +", "import os", "x + 3 = 7", "((((", "a" * 400]
)
def test_what_is_no_calculation_gets_no_program(text: str) -> None:
    assert parse_calculation(text) is None


def test_numbers_lines_and_words_of_a_file_are_counted() -> None:
    assert all(map(parse_file_calculation, ["add up the numbers", "how many words are there", "count the lines"]))
    assert all(map(parse_file_calculation, ["average of the prices", "how many names are", "count the characters"]))
    assert parse_file_calculation("paint the numbers") is None
    found = parse("How many lines does a.md have?")
    assert isinstance(found, CalculateIntent)
    assert found.file == A_MD


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ('save "a" and "b" to a.md', "a\nb"),
        ('make a.md containing {"a": 1}', '{"a": 1}'),
        ("create a.md with the line a,b", "a,b"),
        ("create a.md: all is well", "all is well"),
        ("store my address in a.md: 14 Mill Lane, Bath", "14 Mill Lane, Bath"),
        ("create a.md with milk, eggs and bread", "milk\neggs\nbread"),
        ("new file a.md with the names Ravi and Elsa", "Ravi\nElsa"),
        ("write the numbers 1 to 3 to a.md", "1\n2\n3"),
    ],
)
def test_given_text_is_written_word_for_word(message: str, content: str) -> None:
    assert parse(message) == WriteIntent(file=A_MD, content=content)


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        ("overwrite a.md with “new”", WriteIntent(file=A_MD, content="new", replaces=True)),
        ('save "new" as a.md, replacing what\'s there', WriteIntent(file=A_MD, content="new", replaces=True)),
        ("write a poem about tea to a.md", WriteIntent(file=A_MD, subject="Write a poem about tea")),
        ("create a.md", DeclineIntent("what", "a.md")),
        ("write something to a.md", DeclineIntent("what", "a.md")),
        ("write an essay about tea to a.md", DeclineIntent("facts", "a.md")),
        ("write game.py that plays chess", DeclineIntent("program", "game.py")),
        ("copy the attachment to a.md", DeclineIntent("unsupported")),
        ("save the attachment as a.md", DeclineIntent("what", "a.md")),
        ("make a.md nicer", DeclineIntent("edit")),
        ('insert "x" before "y" in a.md', DeclineIntent("edit")),
        ("add a heading to a.md", DeclineIntent("what", "a.md")),
        ("add it to a.md", WriteIntent(file=A_MD, uses_result=True, appends=True)),
        ("add milk", ChangeIntent(FileMention(), LineInsertion(text="milk"))),
        ("remove milk", ChangeIntent(FileMention(), LineRemoval(words="milk", is_line=False))),
        ("get rid of a.md", DeclineIntent("delete")),
        ("delete my account", DeclineIntent("delete")),
        ("write my address to a.md", WriteIntent(file=A_MD, reference="my address")),
        ("search a.md for tea", ReadIntent(file=A_MD, kind="contains", words="tea")),
        ("delete a.md", DeclineIntent("delete")),
        ("delete all files", DeclineIntent("delete")),
        ("delete everything from a.md", DeclineIntent("delete")),
        ("rename a.md to b.md", DeclineIntent("unsupported")),
        ('write "x" to /etc/a.md', DeclineIntent("outside")),
        ("if it rains, add a coat to a.md", DeclineIntent("condition")),
        ("search the web for tea", DeclineIntent("web")),
        ("don't touch a.md", SmallTalkIntent("nothing")),
        ("My tea is cold", SmallTalkIntent("statement")),
        ("thank you very much!", SmallTalkIntent("thanks")),
        ("What can you do?", HelpIntent()),
        ("can you read files?", HelpIntent()),
        ("who are you?", SmallTalkIntent("self")),
        ("a.md", DeclineIntent("what", "a.md")),
        ("blah blub", DeclineIntent("unclear")),
        ("x " * 400, DeclineIntent("unclear")),
        ("", DeclineIntent("unclear")),
        ("What is the capital of France?", QuestionIntent("What is the capital of France?")),
        ("show a.md", ReadIntent(file=A_MD)),
        ("what does a.md say?", ReadIntent(file=A_MD)),
        ("summarize a.md", ReadIntent(file=A_MD, kind="summary")),
        ("does a.md mention tea?", ReadIntent(file=A_MD, kind="contains", words="tea")),
        ("show me the last line of a.md", ReadIntent(file=A_MD, kind="line", words="last line")),
        ("read it", ReadIntent(file=FileMention(is_pronoun=True))),
        ("show my packing list", ReadIntent(file=FileMention(words="packing list"))),
        ("what does the attachment say", ReadIntent(file=FileMention(is_attachment=True))),
        ('find "a+b" in the files', SearchIntent(words="a+b")),
        ("which files mention tea?", SearchIntent(words="tea")),
        ("where is the rent mentioned?", SearchIntent(words="rent")),
        ("grep ferry", SearchIntent(words="ferry")),
        ("list the python files", SearchIntent(name_pattern="\\.py$")),
        ("find files ending in .md", SearchIntent(name_pattern="\\.md$")),
        ("is there a file called a.md?", SearchIntent(name_pattern="(^|/)a\\.md$")),
        ("what files are there?", SearchIntent(name_pattern=".")),
        ("what was my first message?", RecallIntent("first")),
        ("what did I just say?", RecallIntent("last")),
        ("what have I said so far?", RecallIntent("all")),
        ("what did you say?", RecallIntent("answer")),
        ("where do I live?", RecallIntent("topic", "where do I live?")),
        ("Make a plan for a picnic", PlanIntent(goal="picnic")),
        ("plan", DeclineIntent("what", "plan")),
        ("step 2 is done", PlanStatusIntent("done", 2)),
        ("close the plan", PlanStatusIntent("close")),
        ("what's next on the plan?", PlanStatusIntent("show")),
    ],
)  # fmt: skip
def test_a_message_has_one_intent(message: str, intent: Intent) -> None:
    assert parse(message) == intent


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        ('write "a" to a.md, then show it', [WriteIntent, ReadIntent]),
        ('write "x, then y" to a.md and read it back', [WriteIntent, ReadIntent]),
        ("calculate 2 + 2 and show me the result", [CalculateIntent]),
        ('Save "a" to a.md and email it to Bob', [WriteIntent, DeclineIntent]),
        ("Hello! I am Ann. Show a.md", [ReadIntent]),
        ("replace tea with rum in a.md and tell me what it says", [ChangeIntent, ReadIntent]),
        ("add wash car and read book to a.md", [ChangeIntent]),
        ("write a poem about rain. Save it as rain.md", [WriteIntent]),
        ('Could you keep this in a.md for later? "tea"', [WriteIntent]),
        ("Open a plan: 1. find the form 2. fill it in 3. send it off", [PlanIntent]),
    ],
)
def test_a_message_is_split_where_another_request_begins(message: str, kinds: list[type[Intent]]) -> None:
    assert [type(clause.intent) for clause in parse_message(message)] == kinds


def test_it_means_the_file_of_the_clause_before() -> None:
    *_, last = parse_message('write "a" to a.md, then add "b" to it, then show it')
    assert last.intent == ReadIntent(file=A_MD)


@pytest.mark.parametrize(
    "message",
    [
        "I forgot tea. Could you add it to a.md?",
        "a.md needs tea",
        "tea should go on a.md too",
        "I want tea added to a.md",
        "Add the following to a.md: tea",
        "pls add tea to a.md ty",
    ],
)
def test_there_are_many_ways_to_ask_for_one_more_line(message: str) -> None:
    assert parse(message) == ChangeIntent(A_MD, LineInsertion(text="tea"))


def test_a_file_is_not_added_to_another_by_its_name() -> None:
    assert parse("put the contents of b.md into a.md") == DeclineIntent("unsupported")


def test_too_many_requests_at_once_are_declined() -> None:
    message = ", then ".join(f"show {name}.md" for name in "abcdefghij")
    assert [clause.intent for clause in parse_message(message)] == [DeclineIntent("unclear")]


def test_general_steps_name_the_goal_and_are_as_many_as_asked_for() -> None:
    assert general_steps("cleaning the garage")[0] == "List the parts of “cleaning the garage”"
    assert len(general_steps("a trip to Rome in three steps")) == 3
    assert len(general_steps("")) >= 4


@given(st.text(max_size=200))
def test_any_message_has_intents(message: str) -> None:
    for clause in parse_message(message):
        if isinstance(clause.intent, ChangeIntent):
            apply_edit(message, clause.intent.edit)
            describe_edit(clause.intent.edit)
