"""Builds the prompts of the small model: an instruction, one or two examples and the input."""

from collections.abc import Sequence
from typing import Final

MAX_PROMPT_BYTES: Final = 1_500
"""Longest prompt. A token has at least one byte, so a prompt has at most 1,500 tokens; English text has about 400."""

_ASSISTANT: Final = "You are timeloom's demo model, a small one. Answer briefly, correctly and politely."
_WRITER: Final = "You write short texts. Write only the text itself, with nothing before or after it."
_CODER: Final = "You write short programs. Write only the program, with nothing before or after it."
_PLANNER: Final = "You write plans: short numbered steps, each of them something to do."
_READER: Final = "You answer questions from a text, in one short sentence, with words of the text."
_SUMMARISER: Final = "You say in two short sentences what a text is about."
_FILLER: Final = "You fill in the parameters of a tool as JSON, from what the user says."

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


def for_answer(message: str, exchanges: Sequence[tuple[str, str]]) -> str:
    """Return a prompt to answer a message, with the previous exchange as context."""
    before = [(cut(asked, 150), cut(said, 200)) for asked, said in exchanges[-1:] if asked and said]
    return chat(_ASSISTANT, [*_TALK, *before], cut(message, 500))


def for_text(subject: str) -> str:
    """Return a prompt to write a text."""
    return chat(_WRITER, _TEXTS, cut(subject, 600))


def for_program(subject: str, language: str) -> str:
    """Return a prompt to write a program."""
    return chat(_CODER, _PROGRAM, cut(f"Write a {language} program: {subject}", 600))


def for_steps(goal: str) -> str:
    """Return a prompt to write the steps of a plan."""
    return chat(_PLANNER, _STEPS, cut(f"Plan: {goal}", 400))


def for_question(question: str, text: str) -> str:
    """Return a prompt to answer a question from a text."""
    return chat(_READER, _ANSWERS, f"Text: {cut(text, 600)}\nQuestion: {cut(question, 250)}")


def for_summary(text: str) -> str:
    """Return a prompt to summarize a text."""
    return chat(_SUMMARISER, (), f"Text: {cut(text, 900)}\nWhat is it about?")


def for_parameters(message: str, purpose: str, examples: Sequence[str]) -> str:
    """Return a prompt to fill in the parameters of a tool."""
    shown = tuple((f"Tool: {cut(purpose, 150)}", cut(example, 200)) for example in examples[:1])
    return chat(_FILLER, shown, f"Tool: {cut(purpose, 150)}\nUser: {cut(message, 350)}")


def chat(system: str, turns: Sequence[tuple[str, str]], message: str) -> str:
    """Return the prompt in the chat format that the model was trained on."""
    lines = [f"<|im_start|>system\n{system}<|im_end|>"]
    for asked, said in turns:
        lines += [f"<|im_start|>user\n{asked}<|im_end|>", f"<|im_start|>assistant\n{said}<|im_end|>"]
    return "\n".join([*lines, f"<|im_start|>user\n{message}<|im_end|>", "<|im_start|>assistant\n"])


def cut(text: str, max_bytes: int) -> str:
    """Return the beginning of a text, with the control tokens of the chat format made harmless."""
    plain = text.replace("<|", "< |").encode("utf-8", "replace")
    return plain[:max_bytes].decode("utf-8", "ignore").strip()
