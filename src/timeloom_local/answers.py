"""The fixed texts of answers: what the demo model can do, and why it declines."""

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Final

from timeloom_local.intents.kinds import DeclineIntent
from timeloom_local.read_catalogue import OfferedTool

MAX_SHOWN_CHARS: Final = 1_500
"""Maximum length of a file's text in an answer."""

MAX_LINE_CHARS: Final = 120
"""Maximum length of a text that an answer shows within a sentence."""

REAL_MODEL: Final = (
    "For everything else set a real model: start timeloom with `--model anthropic:<id>` and ANTHROPIC_API_KEY, or with "
    "`--model openai:<id>` and OPENAI_API_KEY or OPENAI_BASE_URL."
)
MADE_UP: Final = "A very small demo model made up these words, so check them."


def describe_abilities(tools: Iterable[OfferedTool]) -> str:
    """Return a text on the abilities of the model for people: what to ask for, and the purposes of other tools."""
    offered = {offer.tool_id: offer.purpose for offer in tools}
    known = [
        text for tool_id, text in _ABILITIES.items() if not tool_id or any(name.startswith(tool_id) for name in offered)
    ]
    others = [purpose for tool_id, purpose in offered.items() if not tool_id.startswith(_BUILT_IN)]
    parts = [_DEMO, _to_list("You can ask me to:", known)]
    if others:
        parts.append(_to_list("This server also has tools of its own:", others))
    return "\n\n".join([*parts, REAL_MODEL])


def describe_decline(decline: DeclineIntent, *, is_short: bool = False) -> str:
    """Return why a request is declined; unless short, also what the model can do and how to set a real model."""
    reason = _REASONS[decline.reason].format(decline.detail or "it")
    if decline.reason == "what" and decline.detail == "plan":
        reason = "What is the plan for? Say for example “Make a plan for a picnic”."
    if decline.reason in _QUESTIONS:
        return reason
    if is_short:
        return f"{reason.removesuffix(f' {_SELF}.')} {_SHORT_HINT}"
    return f"{reason} {SHORT_ABILITIES} {REAL_MODEL}"


def describe_small_talk(kind: str) -> str:
    """Return the answer to a greeting, thanks or a statement."""
    return _TALK[kind]


def show_text(name: str, text: str) -> str:
    """Return a file's text as a block of code, cut at a maximum length."""
    shown = text[:MAX_SHOWN_CHARS].rstrip("\n")
    more = "\n…" if len(text) > MAX_SHOWN_CHARS else ""
    fence = "````" if "```" in shown else "```"
    return f"{name}:\n\n{fence}\n{shown}{more}\n{fence}"


def show_words(name: str, text: str) -> str:
    """Return a file's text in the sentence if it is one short line, otherwise as a block of code."""
    line = text.strip("\n")
    return (
        show_text(name, text)
        if "\n" in line or len(line) > MAX_LINE_CHARS
        else f"{name}: “{line}”{'' if line[-1:] in '.!?' else '.'}"
    )


def one_line(text: str, limit: int = 300) -> str:
    """Return a text on one line, cut at a maximum length and without a full stop at its end."""
    return " ".join(text.split())[:limit].rstrip(".")


def quote(text: str, cite: str = "") -> str:
    """Return a sentence as a quotation."""
    return f"> {one_line(text, 400)}{cite}"


def join_names(names: Sequence[str]) -> str:
    """Return names as an enumeration."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else ""


SHORT_ABILITIES: Final = (
    "I can make a plan, write, append to, change, read and search files, run a small calculation, quote from an "
    "attachment, and find what you said in this conversation."
)
_SHORT_HINT: Final = "Ask “What can you do?” for what I can do."
_DEMO: Final = "I am a small demo model. I do a few things by fixed rules, in plain English, and I know no facts."
_ABILITIES: Final = MappingProxyType(
    {
        "react.plan": "make a plan: “Make a plan for a birthday party”, “Step 1 is done”",
        "react.write": 'write a file: “Write "Milk and apples" to list.txt”',
        "react.patch": "add to a file, or change a word: “Add bread to list.txt”, “Replace apples with pears in "
        "list.txt”",
        "react.read": "show a file, or quote from a text that you attach: “Show me list.txt”, “When does the lease "
        "begin?”",
        "react.rg": "search your files: “Which file mentions milk?”",
        "exec_tools.": "run a small calculation with a program: “Calculate 17 * 23”, “Add up the numbers in costs.txt”",
        "": "find what you said in this conversation: “What did I say about my sister?”",
    }
)
"""What people can ask for, with an example, by the tool that does it. The other built-in tools serve the model."""
_BUILT_IN: Final = ("react.", "exec_tools.")
_SELF: Final = "I am a small demo model"
_REASONS: Final = MappingProxyType(
    {
        "facts": f"{_SELF}, and I do not know facts, so I cannot answer or write this.",
        "delete": f"I cannot delete files or empty them, so I left them as they are. {_SELF}.",
        "unsupported": f"I cannot do this, so I did nothing. {_SELF}.",
        "unclear": f"I did not understand this, so I cannot do it, and I did nothing. {_SELF}.",
        "language": f"I understand only English, so I cannot do this, and I did nothing. {_SELF}.",
        "condition": f"I cannot follow conditions or wait for a time, and I do not solve such problems, so I did "
        f"nothing. {_SELF}.",
        "edit": (
            "I cannot make this change, so I changed nothing. I can replace words (“Replace old with "
            "new in NAME”), add a "
            f"line (“Add text to NAME”) and remove one (“Remove the line about X from NAME”). {_SELF}."
        ),
        "program": f"I cannot write programs other than small calculations, so I did nothing. {_SELF}.",
        "too_large": f"These numbers are too large for the small calculations that I can do, so I ran nothing. "
        f"{_SELF}.",
        "web": f"I cannot reach the web, so I did nothing. {_SELF}.",
        "outside": "I cannot use files outside the workspace of this conversation, so I did nothing. Name a "
        "file such as notes.txt.",
        "what": (
            'What shall I do with {0}? Say for example “Write "hello" to {0}”, “Add hello to {0}” or '
            "“Show me {0}”. I did nothing yet."
        ),
        "which_file": "Which file do you mean? Please name it, for example “Add milk to list.txt”. I changed "
        "nothing yet.",
    }
)
_QUESTIONS: Final = frozenset({"what", "which_file", "outside"})
_TALK: Final = MappingProxyType(
    {
        "hello": f"Hello! {_SELF}. {SHORT_ABILITIES} “What can you do?” lists examples.",
        "thanks": "You are welcome.",
        "bye": "All right, I do nothing more. Goodbye!",
        "self": f"{_SELF} that runs on this machine and shows how timeloom works; I follow fixed rules. "
        f"{SHORT_ABILITIES} {REAL_MODEL}",
        "statement": (
            "I have read this. I wrote nothing to a file, but I can find it again in this "
            "conversation: ask for example “What did "
            "I say about …?”."
        ),
        "yes": "Please say the whole request again: each of my answers depends only on the message that it "
        "answers. I did nothing.",
        "nothing": "All right, I do nothing and change nothing.",
    }
)


def _to_list(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, "", *(f"- {line}" for line in lines)])
