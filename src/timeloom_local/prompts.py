"""Builds the prompts of the small model: an instruction, one or two examples and the input."""

from collections.abc import Sequence
from typing import Final

MAX_PROMPT_BYTES: Final = 1_500
"""Longest prompt. A token has at least one byte, so a prompt has at most 1,500 tokens; English text has about 400."""

_WRITER: Final = "You write short texts. Write only the text itself, with nothing before or after it."
_SUMMARISER: Final = "You say in two short sentences what a text is about."
_FILLER: Final = "You fill in the parameters of a tool as JSON, from what the user says."

_TEXTS: Final = (
    ("Write a short thank-you note to a teacher", "Dear Ms. Brown,\nthank you for your patience this year.\nKim"),
    ("Write two lines about rain", "Rain taps on the window,\nthe street shines like a river."),
)


def for_text(subject: str) -> str:
    """Return a prompt to write a text."""
    return chat(_WRITER, _TEXTS, cut(subject, 600))


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
