"""Records in one pass over a timeline which entries were derived from which."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from timeloom.core.blocks import (
    ApprovalRequested,
    CompactionEnded,
    CompactionRequested,
    Completion,
    ContentBlock,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Notice,
    PlanAcknowledged,
    PlanRecorded,
    PlansCompacted,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    Titled,
    ToolCall,
    ToolCode,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.paths import EntriesPath, SourcesPath, TurnIndexPath, parse_long
from timeloom.core.timeline import NO_TURN, Entry

CallKey = tuple[TurnId, CallId]


class Provenance:
    """An index from each entry to the entries that were derived from it."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.plans: defaultdict[PlanId, list[int]] = defaultdict(list)
        """The entries that contain each plan."""
        self.call_repeats: defaultdict[CallKey, list[int]] = defaultdict(list)
        """The entries that repeat the parameters of a call: approval requests, notices, code."""
        self.results: defaultdict[CallKey, list[int]] = defaultdict(list)
        """The text results of a call."""
        self.working_summaries: defaultdict[TurnId, list[int]] = defaultdict(list)
        """The working summaries of each turn."""
        self.titles: list[int] = []
        self.title_requests: list[int] = []
        """Requests for a title, and their replies."""
        self.title_inputs: set[int] = set()
        """The entries that a title is made from: the first message and its answer."""
        self._first_turn: TurnId = NO_TURN
        self._calls: dict[CallKey, int] = {}
        self._reading: set[CallKey] = set()
        self._digests: defaultdict[tuple[CallKey, str], list[int]] = defaultdict(list)
        self._replies: defaultdict[TurnId, list[int]] = defaultdict(list)
        self._calls_of: defaultdict[TurnId, list[int]] = defaultdict(list)
        self._reads_by_path: defaultdict[str, list[int]] = defaultdict(list)
        self._reads_by_seq: list[tuple[int, frozenset[int]]] = []
        self._reads_by_source: list[tuple[int, frozenset[int]]] = []
        """The results of reads of entries by seq, and of sources by id."""
        self._hidden: defaultdict[str, list[int]] = defaultdict(list)
        self._pruned: list[tuple[int, Pruned]] = []
        self._ranges: list[tuple[int, RangeSummary]] = []
        self._summary_requests: list[int] = []
        self._fulfilled: defaultdict[MessageId, list[int]] = defaultdict(list)
        """The summaries that requests of a compaction led to."""
        self._rows: defaultdict[int, list[int]] = defaultdict(list)
        for entry in entries:
            self._add(entry)

    def source_entries(self, sids: Iterable[int]) -> Iterator[int]:
        """Yield the entries that added these sources."""
        for sid in sids:
            yield from self._rows[sid]

    def reply_before(self, entry: Entry) -> list[int]:
        """Return the model reply from which the entry was parsed."""
        return _last_before(self._replies[entry.turn_id], entry.seq)

    def call_before(self, entry: Entry) -> list[int]:
        """Return the call that wrote the entry."""
        return _last_before(self._calls_of[entry.turn_id], entry.seq)

    def call_with_results(self, turn: TurnId, call: CallId) -> Iterator[int]:
        """Yield that call and its text results; nothing if the turn has no such call."""
        if (turn, call) in self._calls:
            yield self._calls[turn, call]
        yield from self.results[turn, call]

    def content_origins(self, entry: Entry, block: ContentBlock) -> Iterator[int]:
        """Yield the metadata of a content; for a file also the call that wrote it and the call's text results."""
        if not isinstance(block, ResultContent):
            return
        key = (entry.turn_id, block.tool_call_id)
        yield from self._digests[key, block.artifact_path]
        if block.artifact_path.startswith("fi:") and key not in self._reading and key in self._calls:
            yield self._calls[key]
            yield from self.results[key]

    def reads_of(self, entry: Entry, sids: frozenset[int]) -> Iterator[int]:
        """Yield the reads that showed the entry by path or by seq, or a hint of it in its turn's index."""
        names = [name for name in (entry.path, entry.alias) if name]
        if entry.turn_id:
            names.append(str(TurnIndexPath(entry.turn_id)))
        for name in names:
            yield from self._reads_by_path[name]
        yield from (seq for seq, places in self._reads_by_seq if entry.seq in places)
        yield from (seq for seq, shown in self._reads_by_source if not sids.isdisjoint(shown))

    def replacements_of(self, entry: Entry) -> Iterator[int]:
        """Yield the blocks that replaced the entry in the prompt."""
        for name in {entry.path, entry.alias} - {""}:
            yield from self._hidden[name]
        for seq, block in self._pruned:
            if any(cut.first_seq <= entry.seq <= cut.last_seq for cut in block.cuts):
                yield seq

    def summaries_of(self, entry: Entry) -> Iterator[int]:
        """Yield the summaries that cover the entry, and the summary requests made after it."""
        for seq, block in self._ranges:
            within = block.first_seq <= entry.seq <= block.last_seq
            if within or (not block.last_seq and entry.turn_id in block.covered_turn_ids):
                yield seq
        yield from self._summary_requests[bisect_left(self._summary_requests, entry.seq) :]
        if isinstance(entry.block, CompactionRequested):
            # The focus of a request is in the request for its summary, and may be in the summary.
            yield from self._fulfilled[entry.block.message_id]

    def _add(self, entry: Entry) -> None:
        self._add_call_part(entry)
        self._add_message(entry)
        self._add_rows(entry)
        self._add_forgetting(entry)

    def _add_call_part(self, entry: Entry) -> None:
        turn, seq = entry.turn_id, entry.seq
        match entry.block:
            case ToolCall(tool_call_id=call) as block:
                self._calls[turn, call] = seq
                self._calls_of[turn].append(seq)
                if block.known_traits.reads_artifacts:
                    self._reading.add((turn, call))
            case CompactionRequested(message_id=message):
                # A request that a tool made has the id of its call.
                self.call_repeats[turn, CallId(message)].append(seq)
            case ToolCode(tool_call_id=call) | ApprovalRequested(tool_call_id=call):
                self.call_repeats[turn, call].append(seq)
            case Notice(tool_call_id=call) if call:
                self.call_repeats[turn, call].append(seq)
            case ResultDigest(tool_call_id=call, digest=digest):
                self._digests[(turn, call), digest.artifact_path].append(seq)
            case ResultContent(tool_call_id=call, artifact_path=path):
                self._add_content(entry, (turn, call), path)
            case ResultStatus(tool_call_id=call):
                self.results[turn, call].append(seq)
            case _:
                pass

    def _add_content(self, entry: Entry, key: CallKey, path: str) -> None:
        if not path.startswith("fi:"):
            self.results[key].append(entry.seq)
        if key not in self._reading:
            return
        self._reads_by_path[path].append(entry.seq)
        match parse_long(path):
            case EntriesPath() as places:
                self._reads_by_seq.append((entry.seq, frozenset(places.numbers)))
            case SourcesPath() as sources:
                self._reads_by_source.append((entry.seq, frozenset(sources.numbers)))
            case _:
                pass

    def _add_message(self, entry: Entry) -> None:
        turn, seq = entry.turn_id, entry.seq
        match entry.block:
            case UserPrompt():
                self._first_turn = self._first_turn or turn
                if turn == self._first_turn:
                    self.title_inputs.add(seq)
            case Completion() if turn == self._first_turn:
                self.title_inputs.add(seq)
            case Titled(author="runtime"):
                self.titles.append(seq)
            case WorkingSummary():
                self.working_summaries[turn].append(seq)
            case ModelCalled() | ModelAnswered() as block:
                self._add_request(entry, block)
            case _:
                pass

    def _add_request(self, entry: Entry, block: ModelCalled | ModelAnswered) -> None:
        if block.purpose == "title":
            self.title_requests.append(entry.seq)
        elif block.purpose == "compaction":
            self._summary_requests.append(entry.seq)
        elif isinstance(block, ModelAnswered):
            self._replies[entry.turn_id].append(entry.seq)

    def _add_rows(self, entry: Entry) -> None:
        match entry.block:
            case PlanRecorded(snapshot=snapshot):
                self.plans[snapshot.plan_id].append(entry.seq)
            case PlanAcknowledged(plan_id=str() as plan):
                self.plans[plan].append(entry.seq)
            case PlansCompacted(plans=plans):
                for plan in plans:
                    self.plans[plan.snapshot.plan_id].append(entry.seq)
            case SourcesAdded(rows=rows):
                for row in rows:
                    self._rows[row.sid].append(entry.seq)
            case _:
                pass

    def _add_forgetting(self, entry: Entry) -> None:
        match entry.block:
            case Hidden(target=target):
                self._hidden[target].append(entry.seq)
            case Pruned() as block:
                self._pruned.append((entry.seq, block))
            case RangeSummary() as block:
                self._ranges.append((entry.seq, block))
            case CompactionEnded(message_id=message, outcome="completed"):
                self._fulfilled[message] += [seq for seq, _ in self._ranges[-1:]]
            case _:
                pass


def _last_before(seqs: Sequence[int], seq: int) -> list[int]:
    at = bisect_left(seqs, seq)
    return list(seqs[at - 1 : at]) if at else []
