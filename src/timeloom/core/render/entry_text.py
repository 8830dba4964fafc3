"""Values for the rendered text of an entry, and the payloads that rendering needs."""

from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.core.blocks import Attachment, ContentBlock, ModelAnswered, ResultStatus, Shown
from timeloom.core.blocks.block import ERASED
from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.codes import CodedError
from timeloom.core.payload import BlobRef, Data, Text
from timeloom.core.render.foreign_text.fence import escape_reserved, one_line
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens

MAX_WORDS_CHARS: Final = 200_000
"""Maximum length of a message, thought or program that is shown completely, about 50,000 tokens. A smaller value hides
pasted text; a larger one lets one message fill the window."""

Payloads = Mapping[BlobRef, bytes]
"""The stored texts that rendering an entry needs, by reference."""

NO_PAYLOADS: Final[Payloads] = {}


class EntryText(msgspec.Struct, frozen=True, gc=False):
    """The rendered text of one entry, followed by an attached image or PDF if there is one; often empty."""

    text: str = ""
    data: Data | None = None
    mime: str = ""
    tokens: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the prompt shows nothing of the entry."""
        return not self.text and self.data is None


NO_TEXT: Final = EntryText()


def text_from_lines(*lines: str) -> EntryText:
    """Return the text of the non-empty lines, followed by the blank line that ends every entry."""
    text = "\n".join(line for line in lines if line).removesuffix("\n") + "\n\n"
    return EntryText(text, tokens=estimate_tokens(text))


def render_words(text: Text, path: str, payloads: Payloads) -> str:
    """Return text of a person or the agent, escaped; very long text is truncated and names the path of the rest."""
    full = load_text(text, payloads)
    if full.startswith(ERASED):
        # The erasure mark of the runtime, in a block of any author. A path to read may follow it.
        return one_line(full, MAX_WORDS_CHARS)
    if len(full) <= MAX_WORDS_CHARS:
        return escape_reserved(full)
    rest = len(full) - MAX_WORDS_CHARS
    return f'{escape_reserved(full[:MAX_WORDS_CHARS])}\n[READ] {rest} more characters: react.read(["{path}"])'


def load_text(text: Text, payloads: Payloads) -> str:
    """Return the text itself, from the payloads if it is stored separately."""
    if isinstance(text, str):
        return text
    data = payloads.get(text)
    if data is None:
        raise CodedError("blob_missing", f"rendering needs the payload {text.sha256[:12]}…, which was not handed in")
    return data.decode("utf-8", "replace")


def needed_payloads(entry: Entry) -> tuple[BlobRef, ...]:
    """Return the stored texts that rendering this entry needs; attached binary data is not included."""
    match entry.block:
        case ContentBlock(text=BlobRef() as text, shown=shown):
            hidden = _is_partial(shown) or (shown is None and isinstance(entry.block, Attachment))
            return () if hidden else (text,)
        case ResultStatus(text=BlobRef() as text, shown=shown):
            return () if _is_partial(shown) else (text,)
        case ModelAnswered(interrupted=False) | ContentBlock() | ResultStatus():
            return ()
        case block:
            return find_blob_refs(block) if block.type_name not in SILENT_TYPES else ()


def _is_partial(shown: Shown | None) -> bool:
    return shown is not None and shown.how != "whole"


SILENT_TYPES: Final = frozenset(
    {
        "conv.header",
        "conv.title",
        "conv.sources.added",
        "conv.erased",
        "react.model.call",
        "turn.feedback",
        "react.hidden",
        "react.pruned",
        "react.compact.request",
        "react.compact.end",
        "react.pinned",
    }
)
"""Block types that a prompt never shows at their position: they appear elsewhere in it, or are bookkeeping."""
