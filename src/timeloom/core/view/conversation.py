"""The view of a conversation's header, title and times."""

import msgspec

from timeloom.core.blocks import ConversationStarted, Erased, Titled
from timeloom.core.timeline import Entry


class ConversationView(msgspec.Struct):
    """The header, the title, the first and the last timestamp, and the number of erasures."""

    header: ConversationStarted | None = None
    title: str = ""
    erased: int = 0
    started_ts: str = ""
    last_ts: str = ""

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
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
