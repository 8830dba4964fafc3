"""Holds the state of the interactive chat: the open conversation, its display and pending attachments."""

from dataclasses import dataclass, field

from timeloom.cli.chat.conversations import LocalConversations
from timeloom.cli.chat.display.transcript import Transcript
from timeloom.cli.chat.display.turn_display import TurnDisplay
from timeloom.cli.chat.terminal.screen import Screen
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import Completion, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.runtime.turn.loop import TurnRunner


@dataclass(slots=True, kw_only=True)
class ChatState:
    """State that the chat loop and the slash commands share."""

    conversations: LocalConversations
    screen: Screen
    transcript: Transcript
    display: TurnDisplay
    turns: TurnRunner
    model: str
    attachments: list[IncomingFile] = field(default_factory=list[IncomingFile])
    choices: list[ConversationId] = field(default_factory=list[ConversationId])
    """Conversations that were listed; the user chooses one by its number."""
    is_quitting: bool = False
    needs_answer: bool = False
    """Whether the chat loop must ask for the answer to the newest open form now."""
    needs_decision: bool = False
    """Whether the chat loop must continue the turn now, and ask for the decision that it waits for."""

    @property
    def session(self) -> Session:
        """The session of the open conversation."""
        return self.turns.session

    async def open_conversation(self, conversation: ConversationId | None, model: str = "") -> None:
        """Switch to that conversation, or to a new one; if it cannot be opened, nothing changes."""
        turns = await self.conversations.open(conversation, model or self.model, self.display)
        self.turns, self.model = turns, model or self.model
        self.show_conversation()

    def show_conversation(self) -> None:
        """Show the id and the title of the open conversation."""
        session = self.session
        self.display.set_conversation(lambda: session.views)
        title = session.views.conversation.title
        self.transcript.print_message(
            f"conversation {session.conversation}{f': {one_line(title, 80)}' if title else ''}"
        )
        if title:
            self.transcript.title(title)

    async def show_last_exchange(self) -> None:
        """Print the newest message and its answer."""
        views = self.session.views
        turn = views.turns.newest
        for path in (f"ar:{turn}.user.prompt", f"ar:{turn}.assistant.completion"):
            for entry in await self.session.entries(list(views.paths.find(path)[:1])):
                match entry.block:
                    case UserPrompt(text=text):
                        self.transcript.print_user_message(one_line(await self.session.text(text), 400))
                    case Completion(text=text) as answer:
                        self.transcript.print_markdown(
                            await self.session.text(text), sources=views.sources.pool.list_rows()
                        )
                        self.display.print_answer_end(answer)
                    case _:
                        pass
