"""Asking a person: a question shown in full, page by page, and the decision that is typed."""

from timeloom.cli.chat.display.transcript import Page
from timeloom.cli.chat.terminal.approvals import HOW, PROMPT, Decision, Question, read_decision
from timeloom.cli.chat.terminal.screen import Pressed, Screen, Typed

INSTEAD = "other words change its course"
"""What becomes of what is no answer."""

_KEPT_ROWS = 6
"""Rows of the screen that are left for the headline, the reason and the line to type on."""


class LeftError(Exception):
    """The user leaves."""


async def ask(screen: Screen, page: Page, question: Question) -> Decision | str | None:
    """What the user decides, or says instead; nothing where they would rather not now. Raises `LeftError`."""
    page.say(question.headline, "strong", "question")
    page.say(question.reason, "plain", "question")
    rest = _print_page(screen, page, question.lines())
    page.say(f"{HOW}; {INSTEAD}; Ctrl-C leaves it waiting", "quiet", "question")
    try:
        while True:
            more = f"{len(rest)} more lines: m; " if rest else ""
            screen.ask(more + PROMPT, keeps_history=False)
            match await screen.events.get():
                case Typed(text=text) if text.strip() == "m" and rest:
                    rest = _print_page(screen, page, rest)
                case Typed(text=text) if text.strip() in ("", "m"):
                    page.say(f"that is all; {HOW}", "quiet", "question")
                case Typed(text=text):
                    return read_decision(text) or text
                case Pressed(key="interrupt"):
                    return None
                case Pressed():
                    raise LeftError
    finally:
        screen.ask()


def _print_page(screen: Screen, page: Page, lines: list[str]) -> list[str]:
    """Prints as many lines as the screen takes and returns the rest."""
    room = max(screen.rows - _KEPT_ROWS, 5)
    for line in lines[:room]:
        deep = min(len(line) - len(line.lstrip()), screen.columns // 2)
        page.say(f"  {line}", "plain", "question", indent=deep + 4)
    return lines[room:]
