"""The hash chain of an exported conversation: its JSON, and its verification without a store."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks.extract_payloads import Payloads, extract_payloads, restore_payloads
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views, fold
from timeloom.wire import timeline_json
from timeloom.wire.block_json import decode_block, encode_block
from timeloom.wire.block_schema import BlockRaw
from timeloom.wire.chain import ChainChecker, ChainLink, ChainProblem
from timeloom.wire.layouts import SourceRaw
from timeloom.wire.record import RecordError, decode_record, encode_record


class ExportedLink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The link of one entry, in hex. At most one of `block` and `record` is set."""

    seq: int
    salt: str = ""
    before: str = ""
    content: str = ""
    block: BlockRaw | msgspec.UnsetType = msgspec.UNSET
    """The block as it was stored, if the export shows it in another state, for example hidden."""
    record: str = ""
    """The record, if it cannot be made from the block again."""


class ExportedChain(msgspec.Struct, frozen=True, kw_only=True):
    """The links of all entries, and the hash of the last entry."""

    head: str = ""
    links: tuple[ExportedLink, ...] = ()


class TimelineExport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole conversation as `conv.timeline.v1`, with hidden blocks marked in their `meta`."""

    type: Literal["conv.timeline.v1"]
    conversation_id: ConversationId
    tenant: str | msgspec.UnsetType = msgspec.UNSET
    project: str | msgspec.UnsetType = msgspec.UNSET
    user: str | msgspec.UnsetType = msgspec.UNSET
    bundle: str | msgspec.UnsetType = msgspec.UNSET
    title: str
    started_ts: str
    last_ts: str
    tail: int
    blocks: tuple[BlockRaw, ...]
    sources_pool: tuple[SourceRaw, ...]
    chain: ExportedChain


class _ExportedTimeline(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    conversation_id: ConversationId
    blocks: tuple[msgspec.Raw, ...]
    tail: int = 0
    sources_pool: msgspec.Raw = msgspec.Raw(b"[]")
    chain: ExportedChain = ExportedChain()


_DECODER: Final = msgspec.json.Decoder(_ExportedTimeline)


def export_link(link: ChainLink, whole: Entry, shown: bytes) -> bytes:
    """Return the JSON of a link; `whole` is the entry with its payloads, `shown` its block as the export has it."""
    exported = ExportedLink(seq=link.seq, salt=link.salt.hex(), before=link.before.hex(), content=link.content.hex())
    if _rebuild_record(shown)[1] != link.record:
        stored = encode_block(whole)
        if _rebuild_record(stored)[1] == link.record:
            exported = replace(exported, block=msgspec.Raw(stored))
        else:
            exported = replace(exported, record=link.record.decode())
    return msgspec.json.encode(exported)


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking one export."""

    conversation: ConversationId
    entries: int
    chained_from: int
    """The seq at which the chain begins; 0 if the export has none."""
    erased: int
    problems: tuple[ChainProblem, ...]


def check_export(data: bytes, heads: Mapping[ConversationId, Mapping[int, str]]) -> ExportReport:
    """Check the chain of an export, that it shows what its records say, and the heads of its conversation.

    Raises `RecordError` if the data is no `conv.timeline.v1` object.
    """
    _, checker = _decode_export(data, heads)
    return checker.check()


class RebuiltExport(msgspec.Struct, frozen=True, kw_only=True):
    """The records and hashes of an export, as the store had them, and its payloads."""

    conversation: ConversationId
    links: tuple[ChainLink, ...]
    head: bytes
    payloads: Payloads


def rebuild_export(data: bytes) -> RebuiltExport:
    """Return the conversation of an export; raises `RecordError`, or `chain_broken` if a check fails."""
    exported, checker = _decode_export(data, {})
    report = checker.check()
    for problem in report.problems:
        raise CodedError("chain_broken", problem.message)
    return RebuiltExport(
        conversation=exported.conversation_id,
        links=tuple(checker.links),
        head=_from_hex(exported.chain.head),
        payloads=checker.payloads,
    )


def _decode_export(
    data: bytes, heads: Mapping[ConversationId, Mapping[int, str]]
) -> tuple[_ExportedTimeline, "_ExportChecker"]:
    try:
        exported = _DECODER.decode(data)
        if exported.type != timeline_json.TIMELINE_TYPE:
            raise RecordError(f"expected a {timeline_json.TIMELINE_TYPE} object, got {exported.type[:60]!r}")
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        return exported, _ExportChecker(exported, fields, heads.get(exported.conversation_id, {}))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _not_an_export_error(error) from error


def _not_an_export_error(error: Exception) -> RecordError:
    return RecordError(f"this is no {timeline_json.TIMELINE_TYPE} object: {error}")


class _ExportChecker:
    def __init__(
        self, exported: _ExportedTimeline, fields: Mapping[str, msgspec.Raw], heads: Mapping[int, str]
    ) -> None:
        self._exported = exported
        self._fields = fields
        self._heads = heads
        self._problems: dict[int, str] = {}
        self._chain = ChainChecker(exported.conversation_id, heads)
        self.links: list[ChainLink] = []
        """The links of the entries that could be read."""
        self.payloads: Payloads = {}

    def check(self) -> ExportReport:
        """Check everything; raises `RecordError` for JSON that cannot be compared."""
        try:
            return self._check()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _not_an_export_error(error) from error

    def _check(self) -> ExportReport:
        exported = self._exported
        links = {link.seq: link for link in exported.chain.links}
        entries: list[Entry] = []
        whole: list[Entry] = []
        for seq, shown in enumerate(exported.blocks, 1):
            found = self._check_entry(seq, bytes(shown), links.get(seq, ExportedLink(seq=seq)))
            if found:
                entries.append(found[0])
                whole.append(found[1])
        for problem in self._chain.finish(_from_hex(exported.chain.head)):
            self._add(problem.seq, problem.message)
        if len(entries) == len(exported.blocks):
            self._check_shown(whole, fold(entries))
        newest = max(self._heads, default=0)
        if newest > len(exported.blocks):
            self._add(len(exported.blocks) + 1, f"entries up to {newest} existed at a turn's end and are missing")
        if exported.tail != len(exported.blocks):
            self._add(len(exported.blocks) + 1, f"the export has {len(exported.blocks)} blocks, not {exported.tail}")
        return ExportReport(
            conversation=exported.conversation_id,
            entries=len(exported.blocks),
            chained_from=self._chain.first_seq,
            erased=self._chain.erased_count,
            problems=tuple(ChainProblem(seq, self._problems[seq]) for seq in sorted(self._problems)),
        )

    def _check_entry(self, seq: int, shown: bytes, exported: ExportedLink) -> tuple[Entry, Entry] | None:
        """Return the entry as it is stored, and with its payloads; None if it cannot be made from the export."""
        try:
            payloads, record = _rebuild_record(bytes(exported.block) if exported.block else shown)
            record = exported.record.encode() or record
            entry = decode_record(record, seq)
            link = ChainLink(seq, *map(_from_hex, (exported.salt, exported.before, exported.content)), record=record)
            whole = replace(entry, block=restore_payloads(entry.block, payloads.__getitem__))
        except (CodedError, ValueError, KeyError) as error:
            self._chain.skip(seq)
            self._add(seq, f"entry {seq} cannot be read from the export ({error})")
            return None
        self._chain.add(entry, record, link)
        self.links.append(link)
        self.payloads.update(payloads)
        return entry, whole

    def _check_shown(self, whole: Sequence[Entry], views: Views) -> None:
        """Compare the fields, blocks and sources of the export with those that follow from its records."""
        for name, value in timeline_json.timeline_fields(self._exported.conversation_id, views).items():
            if name != "tail" and _parse(bytes(self._fields.get(name, b"null"))) != value:
                self._add(1, f"the export does not have the {name} that its entries say")
        for entry, shown in zip(whole, self._exported.blocks, strict=True):
            if _parse(timeline_json.timeline_block(entry, views)) != _parse(bytes(shown)):
                self._add(entry.seq, f"entry {entry.seq} of the export does not show what its record says")
        foot = timeline_json.timeline_foot(views).removeprefix(b'],"sources_pool":')[:-1]
        if _parse(foot) != _parse(bytes(self._exported.sources_pool)):
            self._add(len(whole), "the sources of the export do not follow from its entries")

    def _add(self, seq: int, message: str) -> None:
        self._problems.setdefault(seq, message)


_NO_TIME: Final = "1970-01-01T00:00:00Z"
"""The time of a foreign block without one. Its record has another, so the export carries the record."""


def _rebuild_record(block: bytes) -> tuple[Payloads, bytes]:
    """Return the payloads of a block in JSON, and the record that a store makes of it."""
    stored, payloads = extract_payloads(decode_block(block, _NO_TIME))
    # A field at its default is left out of a record only if it is the same object as the default.
    defaults = {
        field.name: field.default
        for field in msgspec.structs.fields(stored.block)
        if field.default == getattr(stored.block, field.name)
    }
    return payloads, encode_record(replace(stored, block=replace(stored.block, **defaults)))


def _parse(data: bytes) -> object:
    return msgspec.json.decode(data)


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise RecordError(f"the export has a hash that is not in hex: {text[:40]!r}") from error
