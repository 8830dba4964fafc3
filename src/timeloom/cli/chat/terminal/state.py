"""Holds the state of the interactive chat: the open conversation, its display and pending attachments."""

from dataclasses import dataclass, field

from timeloom.cli.chat.conversations import Rooms
from timeloom.cli.chat.display.transcript import Page
from timeloom.cli.chat.display.turn_display import Report
from timeloom.cli.chat.terminal.screen import Screen
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import Completion, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.attachments import TextFile
from timeloom.runtime.turn.loop import Turns


@dataclass(slots=True, kw_only=True)
class Floor:
    """State that the chat loop and the slash commands share."""

    rooms: Rooms
    screen: Screen
    page: Page
    report: Report
    turns: Turns
    model: str
    attached: list[TextFile] = field(default_factory=list[TextFile])
    choices: list[ConversationId] = field(default_factory=list[ConversationId])
    """Conversations that were listed; the user chooses one by its number."""
    leaving: bool = False
    deciding: bool = False
    """Whether the chat loop must ask now for the decision that the turn waits for."""

    @property
    def session(self) -> Session:
        """The session of the open conversation."""
        return self.turns.session

    async def open(self, conversation: ConversationId | None, model: str = "") -> None:
        """Switch to that conversation, or to a new one; if it cannot be opened, nothing changes."""
        turns = await self.rooms.open(conversation, model or self.model, self.report)
        self.turns, self.model = turns, model or self.model
        self.greet()

    def greet(self) -> None:
        """Show the id and the title of the open conversation."""
        session = self.session
        self.report.attend(lambda: session.views)
        title = session.views.conversation.title
        self.page.say(f"conversation {session.conversation}{f': {one_line(title, 80)}' if title else ''}")
        if title:
            self.page.title(title)

    async def recall(self) -> None:
        """Print the newest message and its answer."""
        views = self.session.views
        turn = views.turns.newest
        for path in (f"ar:{turn}.user.prompt", f"ar:{turn}.assistant.completion"):
            for entry in await self.session.entries(list(views.paths.find(path)[:1])):
                match entry.block:
                    case UserPrompt(text=text):
                        self.page.echo(one_line(await self.session.text(text), 400))
                    case Completion(text=text, sources_used=used):
                        self.page.markdown(await self.session.text(text), sources=views.sources.pool.ordered())
                        self.report.sources(used)
                    case _:
                        pass
