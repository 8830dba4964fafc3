"""Shows a call that needs approval in full, page by page, and reads the user's decision."""

from timeloom.cli.chat.display.transcript import Page
from timeloom.cli.chat.terminal.approvals import HOW, PROMPT, Decision, Question, read_decision
from timeloom.cli.chat.terminal.screen import Pressed, Screen, Typed

INSTEAD = "any other text gives the agent new instructions"
"""Hint for text that is neither yes nor no: it steers the turn."""

_KEPT_ROWS = 6
"""Rows of the screen that are reserved for the headline, the reason and the input line."""


class LeftError(Exception):
    """The user quits the chat."""


async def ask(screen: Screen, page: Page, question: Question) -> Decision | str | None:
    """Return the user's decision, or other text to steer the turn with, or None to decide later.

    Raises `UserQuitError` if the user quits.
    """
    page.say(question.headline, "strong", "question")
    page.say(question.reason, "plain", "question")
    rest = _print_page(screen, page, question.lines())
    page.say(f"{HOW}; {INSTEAD}; Ctrl-C decides later", "quiet", "question")
    try:
        while True:
            more = f"{len(rest)} more lines: m; " if rest else ""
            screen.ask(more + PROMPT, keeps_history=False)
            match await screen.events.get():
                case Typed(text=text) if text.strip() == "m" and rest:
                    rest = _print_page(screen, page, rest)
                case Typed(text=text) if text.strip() in ("", "m"):
                    page.say(f"there are no more lines; {HOW}", "quiet", "question")
                case Typed(text=text):
                    return read_decision(text) or text
                case Pressed(key="interrupt"):
                    return None
                case Pressed():
                    raise LeftError
    finally:
        screen.ask()


def _print_page(screen: Screen, page: Page, lines: list[str]) -> list[str]:
    """Print as many lines as fit on the screen and return the rest."""
    room = max(screen.rows - _KEPT_ROWS, 5)
    for line in lines[:room]:
        deep = min(len(line) - len(line.lstrip()), screen.columns // 2)
        page.say(f"  {line}", "plain", "question", indent=deep + 4)
    return lines[room:]
