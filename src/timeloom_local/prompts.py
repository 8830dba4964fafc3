"""Prompts of the local model: a line that says what to do, an example or two, and what it is to be done with."""

from collections.abc import Sequence
from typing import Final

MAX_PROMPT_BYTES: Final = 1_500
"""Longest prompt. A token has at least one byte, so it never has more than 1,500 tokens; English has about 400."""

_ASSISTANT: Final = "You are timeloom's demo model, a small one. Answer briefly, correctly and politely."
_WRITER: Final = "You write short texts. Write only the text itself, with nothing before or after it."
_CODER: Final = "You write short programs. Write only the program, with nothing before or after it."
_PLANNER: Final = "You write plans: short numbered steps, each of them something to do."
_READER: Final = "You answer questions from a text, in one short sentence, with words of the text."
_SUMMARISER: Final = "You say in two short sentences what a text is about."
_FILLER: Final = "You fill in the parameters of a tool as JSON, from what the user says."
_TITLER: Final = "You give conversations a title of at most six words."

_TALK: Final = (
    ("Can you help me?", "I can make plans, write, read and change files, search them, and answer questions."),
    ("What is the capital of Norway?", "The capital of Norway is Oslo."),
)
_TEXTS: Final = (
    ("Write a short thank-you note to a teacher", "Dear Ms. Brown,\nthank you for your patience this year.\nKim"),
    ("Write two lines about rain", "Rain taps on the window,\nthe street shines like a river."),
)
_PROGRAM: Final = (
    ("Write a Python program: print the numbers 1 to 3", "for number in range(1, 4):\n    print(number)"),
)
_STEPS: Final = (
    ("Plan: paint a room", "1. Choose the colour\n2. Cover the floor\n3. Paint the walls\n4. Clean the brushes\n"),
    ("Plan: a school trip", "1. Pick a place and a day\n2. Ask the parents\n3. Book the bus\n4. Pack lunch\n"),
)
_ANSWERS: Final = (
    (
        "Text: The shop opens at nine. It sells bread and tea.\nQuestion: What does the shop sell?",
        "It sells bread and tea.",
    ),
    ("Text: Tom lives in Bergen with his aunt.\nQuestion: Where does Tom live?", "Tom lives in Bergen."),
)
_TITLES: Final = (("Title for: How do I bake bread without yeast?", "Bread without yeast"),)


def for_answer(message: str, exchanges: Sequence[tuple[str, str]]) -> str:
    """Answers a message, with the exchange before it in sight."""
    before = [(cut(asked, 150), cut(said, 200)) for asked, said in exchanges[-1:] if asked and said]
    return chat(_ASSISTANT, [*_TALK, *before], cut(message, 500))


def for_text(subject: str) -> str:
    """Writes a text."""
    return chat(_WRITER, _TEXTS, cut(subject, 600))


def for_program(subject: str, language: str) -> str:
    """Writes a program."""
    return chat(_CODER, _PROGRAM, cut(f"Write a {language} program: {subject}", 600))


def for_steps(goal: str) -> str:
    """Writes the steps of a plan."""
    return chat(_PLANNER, _STEPS, cut(f"Plan: {goal}", 400))


def for_question(question: str, text: str) -> str:
    """Answers a question from a text."""
    return chat(_READER, _ANSWERS, f"Text: {cut(text, 600)}\nQuestion: {cut(question, 250)}")


def for_summary(text: str) -> str:
    """Says what a text is about."""
    return chat(_SUMMARISER, (), f"Text: {cut(text, 900)}\nWhat is it about?")


def for_parameters(message: str, purpose: str, examples: Sequence[str]) -> str:
    """Fills in the parameters of a tool."""
    shown = tuple((f"Tool: {cut(purpose, 150)}", cut(example, 200)) for example in examples[:1])
    return chat(_FILLER, shown, f"Tool: {cut(purpose, 150)}\nUser: {cut(message, 350)}")


def for_title(opening: str) -> str:
    """Gives a conversation its title."""
    return chat(_TITLER, _TITLES, f"Title for: {cut(opening, 400)}")


def chat(system: str, turns: Sequence[tuple[str, str]], message: str) -> str:
    """The prompt in the form that the model was trained on."""
    lines = [f"<|im_start|>system\n{system}<|im_end|>"]
    for asked, said in turns:
        lines += [f"<|im_start|>user\n{asked}<|im_end|>", f"<|im_start|>assistant\n{said}<|im_end|>"]
    return "\n".join([*lines, f"<|im_start|>user\n{message}<|im_end|>", "<|im_start|>assistant\n"])


def cut(text: str, max_bytes: int) -> str:
    """The beginning of a text, without marks that have a meaning in a prompt."""
    plain = text.replace("<|", "< |").encode("utf-8", "replace")
    return plain[:max_bytes].decode("utf-8", "ignore").strip()
