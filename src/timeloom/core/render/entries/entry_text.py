"""The text of an entry as values: what a prompt shows of it, and the stored payloads that takes."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Attachment, ContentBlock, ModelAnswered, ResultStatus, Shown
from timeloom.core.blocks.block import ERASED
from timeloom.core.blocks.extract_payloads import references
from timeloom.core.codes import CodedError
from timeloom.core.payload import BlobRef, Data, Text
from timeloom.core.render.foreign_text.fence import guard, one_line
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate

MAX_WORDS_CHARS: Final = 200_000
"""Longest message, thought or program shown whole, about 50,000 tokens. Smaller hides what a user pasted; larger lets
one message fill the window."""

Payloads = Mapping[BlobRef, bytes]
"""The stored texts that an entry's rendering reads, by reference."""

NO_PAYLOADS: Final[Payloads] = {}


class EntryText(msgspec.Struct, frozen=True):
    """What a prompt shows of one entry: text, then an attached picture or PDF if there is one; often nothing."""

    text: str = ""
    data: Data | None = None
    mime: str = ""
    tokens: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the prompt shows nothing of the entry."""
        return not self.text and self.data is None


NOTHING: Final = EntryText()


def made_of(*lines: str) -> EntryText:
    """The text of these lines, without the empty ones, and the blank line that ends every entry."""
    text = "\n".join(line for line in lines if line).removesuffix("\n") + "\n\n"
    return EntryText(text, tokens=estimate(text))


def words(text: Text, path: str, payloads: Payloads) -> str:
    """Words of a person or of the agent, guarded; of very many the beginning, and where to read the rest."""
    full = plain(text, payloads)
    if full.startswith(ERASED):
        # The runtime's own mark, whoever writes it: it says that nothing is here, and perhaps where to read.
        return one_line(full, MAX_WORDS_CHARS)
    if len(full) <= MAX_WORDS_CHARS:
        return guard(full)
    rest = len(full) - MAX_WORDS_CHARS
    return f'{guard(full[:MAX_WORDS_CHARS])}\n[READ] {rest} more characters: react.read(["{path}"])'


def plain(text: Text, payloads: Payloads) -> str:
    """The text itself, wherever it is."""
    if isinstance(text, str):
        return text
    data = payloads.get(text)
    if data is None:
        raise CodedError("blob_missing", f"rendering needs the payload {text.sha256[:12]}…, which was not handed in")
    return data.decode("utf-8", "replace")


def needed_payloads(entry: Entry) -> tuple[BlobRef, ...]:
    """The stored texts that must be handed in to render this entry; attached bytes are not among them."""
    match entry.block:
        case ContentBlock(text=BlobRef() as text, shown=shown):
            hidden = _stands_for(shown) or (shown is None and isinstance(entry.block, Attachment))
            return () if hidden else (text,)
        case ResultStatus(text=BlobRef() as text, shown=shown):
            return () if _stands_for(shown) else (text,)
        case ModelAnswered(interrupted=False) | ContentBlock() | ResultStatus():
            return ()
        case block:
            return references(block) if block.type_name not in SILENT else ()


def _stands_for(shown: Shown | None) -> bool:
    return shown is not None and shown.how != "whole"


SILENT: Final = frozenset(
    {
        "conv.header",
        "conv.title",
        "conv.sources.added",
        "conv.erased",
        "react.model.call",
        "turn.feedback",
        "react.hidden",
        "react.pruned",
    }
)
"""Types that a prompt shows nothing of: they are shown elsewhere in it, or are the runtime's own bookkeeping."""
