"""The conversation as a whole: whose it is, its title, and what people thought of its turns."""

import msgspec

from timeloom.core.blocks import ConversationStarted, Erased, Feedback, Titled
from timeloom.core.blocks.user import Reaction
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry


class ConversationView(msgspec.Struct):
    """Header and title, each turn's newest reaction of a person, and how often something was erased."""

    header: ConversationStarted | None = None
    title: str = ""
    reactions: dict[TurnId, Reaction] = {}
    erased: int = 0
    started_ts: str = ""
    last_ts: str = ""

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        self.started_ts = self.started_ts or entry.ts
        self.last_ts = entry.ts
        match entry.block:
            case ConversationStarted() as header:
                self.header = header
            case Titled(text=text):
                self.title = text
            case Feedback(origin="user", reaction=reaction):
                self.reactions.pop(entry.turn_id, None)
                if reaction:
                    self.reactions[entry.turn_id] = reaction
            case Erased():
                self.erased += 1
            case _:
                pass
