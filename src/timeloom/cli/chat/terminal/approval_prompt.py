"""Shows a call that needs approval in full, page by page, and reads the user's decision."""

from timeloom.cli.chat.display.transcript import Transcript
from timeloom.cli.chat.terminal.approvals import (
    DECISION_HELP,
    DECISION_PROMPT,
    ApprovalDecision,
    ApprovalQuestion,
    parse_decision,
)
from timeloom.cli.chat.terminal.screen import KeyPress, LineInput, Screen

STEER_HELP = "any other text gives the agent new instructions"
"""Hint for text that is neither yes nor no: it steers the turn."""

_RESERVED_ROWS = 6
"""Rows of the screen that are reserved for the headline, the reason and the input line."""


class UserQuitError(Exception):
    """The user quits the chat."""


async def ask_for_decision(
    screen: Screen, transcript: Transcript, question: ApprovalQuestion
) -> ApprovalDecision | str | None:
    """Return the user's decision, or other text to steer the turn with, or None to decide later.

    Raises `UserQuitError` if the user quits.
    """
    transcript.print_message(question.headline, "strong", "question")
    transcript.print_message(question.reason, "plain", "question")
    rest = _print_page(screen, transcript, question.detail_lines())
    transcript.print_message(f"{DECISION_HELP}; {STEER_HELP}; Ctrl-C decides later", "quiet", "question")
    try:
        while True:
            more = f"{len(rest)} more lines: m; " if rest else ""
            screen.set_prompt(more + DECISION_PROMPT, keeps_history=False)
            match await screen.events.get():
                case LineInput(text=text) if text.strip() == "m" and rest:
                    rest = _print_page(screen, transcript, rest)
                case LineInput(text=text) if text.strip() in ("", "m"):
                    transcript.print_message(f"there are no more lines; {DECISION_HELP}", "quiet", "question")
                case LineInput(text=text):
                    return parse_decision(text) or text
                case KeyPress(key="interrupt"):
                    return None
                case KeyPress():
                    raise UserQuitError
    finally:
        screen.set_prompt()


def _print_page(screen: Screen, transcript: Transcript, lines: list[str]) -> list[str]:
    """Print as many lines as fit on the screen and return the rest."""
    row_count = max(screen.rows - _RESERVED_ROWS, 5)
    for line in lines[:row_count]:
        deep = min(len(line) - len(line.lstrip()), screen.columns // 2)
        transcript.print_message(f"  {line}", "plain", "question", indent=deep + 4)
    return lines[row_count:]
