"""Encodes the content of the user message, and of a longer prompt only the segments that are new."""

import base64
from collections import OrderedDict
from collections.abc import Sequence
from itertools import compress, count
from operator import is_not
from typing import Final, assert_never

import msgspec

from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment

MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Encoded bytes kept for all conversations of a model, the least recently used first out. The segments that they encode
are kept as well. Smaller encodes long prompts again in every round; larger takes memory from other conversations."""

TEXT_START: Final = b'{"type":"text","text":"'
TEXT_END: Final = b'"}'


class ContentCache:
    """Keeps the encoded content of recent conversations, so that a round encodes only what it adds."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._contents: OrderedDict[tuple[str, bool], EncodedContent] = OrderedDict()
        self._kept_bytes = 0

    @property
    def kept_bytes(self) -> int:
        """The size of all kept encodings."""
        return self._kept_bytes

    def keeps(self, conversation: str, *, official: bool) -> bool:
        """Return whether there is an encoding of that conversation."""
        return (conversation, official) in self._contents

    def encode(self, request: ModelRequest, *, official: bool) -> bytes:
        """Return the content of the request as JSON, encoded with the kept beginning if the conversation has one."""
        key = request.conversation, official
        content = self._take(key) or EncodedContent(official=official)
        encoded = content.encode(request.segments)
        if request.conversation:
            self._keep(key, content)
        return encoded

    def _take(self, key: tuple[str, bool]) -> "EncodedContent | None":
        """Remove and return the content of a conversation, so that nothing else changes it meanwhile."""
        content = self._contents.pop(key, None)
        self._kept_bytes -= content.size_bytes if content else 0
        return content

    def _keep(self, key: tuple[str, bool], content: "EncodedContent") -> None:
        if content.size_bytes > self._max_bytes:
            return
        self._contents[key] = content
        self._kept_bytes += content.size_bytes
        while self._kept_bytes > self._max_bytes:
            _, dropped = self._contents.popitem(last=False)
            self._kept_bytes -= dropped.size_bytes


class _ContentEnd(msgspec.Struct, frozen=True, gc=False):
    """Where the encoding of a segment ends, whether text is open there, and whether there is a part besides text."""

    at: int = 0
    in_text: bool = False
    has_data: bool = False


class EncodedContent:
    """The encoded segments of a prompt, without the beginning and the end of the content.

    Adjacent text is one text part, which stays open until a data part follows. The first text part begins without its
    start, because text alone is a plain JSON string, which every service accepts.
    """

    def __init__(self, *, official: bool) -> None:
        self.encoded_segments = 0
        """The number of segments encoded so far."""
        self._official = official
        self._segments: Sequence[Segment] = ()
        self._ends: list[_ContentEnd] = []
        self._encoded = bytearray()
        self._starts_with_text = False

    @property
    def size_bytes(self) -> int:
        """The size of the encoding."""
        return len(self._encoded)

    def encode(self, segments: Sequence[Segment]) -> bytes:
        """Return the content of these segments as JSON; the segments that were encoded before are not encoded again."""
        kept = _count_equal(self._segments, segments)
        # None are known until the end: a segment that cannot be encoded must leave nothing that is taken for its text.
        self._segments = ()
        del self._ends[kept:]
        end = self._ends[-1] if kept else _ContentEnd()
        del self._encoded[end.at :]
        self.encoded_segments += len(segments) - kept
        for segment in segments[kept:]:
            end = self._add(segment, end)
            self._ends.append(end)
        self._segments = segments
        return self._whole(end)

    def _add(self, segment: Segment, end: _ContentEnd) -> _ContentEnd:
        part = _encode_segment(segment, official=self._official)
        if isinstance(part, str):
            return self._add_text(part, end) if part else end
        if end.at:
            self._encoded += TEXT_END + b"," if end.in_text else b","
        else:
            self._starts_with_text = False
        self._encoded += part
        return _ContentEnd(len(self._encoded), in_text=False, has_data=True)

    def _add_text(self, text: str, end: _ContentEnd) -> _ContentEnd:
        if not end.at:
            self._starts_with_text = True
        elif not end.in_text:
            self._encoded += b"," + TEXT_START
        self._encoded += msgspec.json.encode(text)[1:-1]
        return _ContentEnd(len(self._encoded), in_text=True, has_data=end.has_data)

    def _whole(self, end: _ContentEnd) -> bytes:
        if not end.has_data:
            return b'"%b"' % self._encoded
        start = TEXT_START if self._starts_with_text else b""
        return b"[%b%b%b]" % (start, self._encoded, TEXT_END if end.in_text else b"")


def _count_equal(before: Sequence[Segment], after: Sequence[Segment]) -> int:
    """Return how many segments both begin with; where a cache point moved, the segment is another object."""
    for n in compress(count(), map(is_not, before, after)):
        if not _is_same_content(before[n], after[n]):
            return n
    return min(len(before), len(after))


def _is_same_content(before: Segment, after: Segment) -> bool:
    match before, after:
        case TextSegment(text=old), TextSegment(text=new):
            return old == new
        case DataSegment(), DataSegment():
            return (before.mime, before.data) == (after.mime, after.data)
        case _:
            return False


def _encode_segment(segment: Segment, *, official: bool) -> str | bytes:
    """Return a text, or an encoded part."""
    match segment:
        case TextSegment(text=text):
            return text
        case DataSegment(mime=mime, data=data):
            return _encode_data(mime.partition(";")[0].strip().lower(), data, official=official)
        case _:
            assert_never(segment)


def _encode_data(mime: str, data: bytes, *, official: bool) -> str | bytes:
    if mime.startswith("image/"):
        return msgspec.json.encode({"type": "image_url", "image_url": {"url": _data_uri(mime, data)}})
    if mime == "application/pdf" and official:
        file = {"filename": "document.pdf", "file_data": _data_uri(mime, data)}
        return msgspec.json.encode({"type": "file", "file": file})
    return f"[{mime}, {len(data)} bytes: this model cannot see it]\n"


def _data_uri(mime: str, data: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"
