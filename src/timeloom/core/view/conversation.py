"""The conversation as a whole: whose it is, its title, and its times."""

import msgspec

from timeloom.core.blocks import ConversationStarted, Erased, Titled
from timeloom.core.timeline import Entry


class ConversationView(msgspec.Struct):
    """Header and title, the first and the last time, and how often something was erased."""

    header: ConversationStarted | None = None
    title: str = ""
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
            case Erased():
                self.erased += 1
            case _:
                pass
