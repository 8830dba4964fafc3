"""Chooses the next reduction of a request, from the one that loses least to the one that loses most."""

from typing import Final, assert_never

import msgspec

from timeloom.core.policy.compaction import CompactSettings, RequestSize, max_summary_tokens

MIN_SUMMARY_TOKENS: Final = 150
"""Minimum tokens of a useful summary: it must name the turns it covers."""

SHORTENED_CHARS: Final = (4_000, 1_000, 240, 0)
"""Characters kept of each shortened entry, step by step until the request fits."""

LEFT_TOO_MUCH: Final = "the first one left too much"
"""Why a rule and not a model makes the second summary. Summaries quote it."""


class Prune(msgspec.Struct, frozen=True):
    """Replace old turns and rounds with cards if that saves money; it is for requests that fit."""


class WriteSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Replace all entries up to `cut` with a summary that a model writes."""

    cut: int
    max_tokens: int


class ExtractSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Replace all entries up to `cut` with a summary that a rule extracts; `reason` says why no model writes it."""

    cut: int
    max_tokens: int
    reason: str
    at_last_cut: bool = False
    """Whether this is the second summary, after which no other one is tried."""


class ShortenEntries(msgspec.Struct, frozen=True, kw_only=True):
    """Shorten the largest entries to `max_chars` each, until the conversation has at most `max_tokens`."""

    max_chars: int
    max_tokens: int


class Collapse(msgspec.Struct, frozen=True, kw_only=True):
    """Replace all entries that no summary covers with one card."""

    max_tokens: int


Reduction = Prune | WriteSummary | ExtractSummary | ShortenEntries | Collapse


class CutPoint(msgspec.Struct, frozen=True):
    """The last entry that a summary would cover, and the tokens that it would replace; 0 if no cut is legal."""

    seq: int = 0
    covered_tokens: int = 0


class ReductionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that decide the next reduction of a request."""

    before: RequestSize
    """The request before the first reduction. All budgets derive from it, so that they do not move in between."""
    total_tokens: int
    """The request and its reply after the last reduction."""
    limit: int
    """The maximum of `total_tokens`, see `max_request_tokens`."""
    settings: CompactSettings
    best_cut: CutPoint = CutPoint()
    last_cut: CutPoint = CutPoint()
    last: Reduction | None = None
    """The reduction that was applied last, whether or not it changed the request."""
    summary_failure: str | None = None
    """Why no model wrote the last summary: none is set, a policy refused it, it failed, or the user interrupted it.
    None if the last reduction did not fail. A policy may refuse with an empty text."""

    @property
    def fits(self) -> bool:
        """Whether the request needs no further reduction."""
        return self.total_tokens <= self.limit

    @property
    def available_tokens(self) -> int:
        """The tokens that the conversation may have; negative if the fixed parts alone exceed the limit."""
        return self.limit - self.before.fixed - self.before.reply


def next_reduction(facts: ReductionFacts) -> Reduction | None:
    """Return the next reduction; None if the request fits or nothing is left to reduce.

    A request that fits is pruned once. One that is too large is summarized up to the best cut, then up to the last
    one. Then its largest entries are shortened step by step, and at the end one card replaces them all.
    """
    if facts.fits:
        return Prune() if facts.last is None else None
    if facts.before.fixed + facts.before.reply > facts.before.window:
        # The fixed parts alone are too large, so reducing the conversation would not help.
        return None
    match facts.last:
        case None | Prune():
            return _summarize_to_best_cut(facts) or _summarize_to_last_cut(facts) or _shorten(facts)
        case WriteSummary(cut=cut, max_tokens=max_tokens) if facts.summary_failure is not None:
            return ExtractSummary(cut=cut, max_tokens=max_tokens, reason=facts.summary_failure)
        case WriteSummary() | ExtractSummary(at_last_cut=False):
            return _summarize_to_last_cut(facts) or _shorten(facts)
        case ExtractSummary():
            return _shorten(facts)
        case ShortenEntries(max_chars=max_chars):
            return _shorten(facts, max_chars) or Collapse(max_tokens=max(0, facts.available_tokens) // 4)
        case Collapse():
            return None
        case _:
            assert_never(facts.last)


def next_requested_reduction(facts: ReductionFacts) -> WriteSummary | ExtractSummary | None:
    """Return the next reduction of a requested compaction: one summary up to the best cut, by a rule if no model can.

    None if the summary is written, or if there is nothing that a summary would shorten.
    """
    match facts.last:
        case None:
            return _summarize_to_best_cut(facts)
        case WriteSummary(cut=cut, max_tokens=max_tokens) if facts.summary_failure is not None:
            return ExtractSummary(cut=cut, max_tokens=max_tokens, reason=facts.summary_failure)
        case _:
            return None


def explain_nothing_to_compact(keep: int, cut: CutPoint, *, summarized_before: bool) -> str:
    """Return why a requested compaction that keeps this many rounds summarizes nothing."""
    rounds = "the newest round" if keep == 1 else f"the newest {keep} rounds"
    if cut.seq:
        return f"what came before {rounds} has only {cut.covered_tokens} tokens; a summary would not be shorter"
    if summarized_before:
        return f"a summary already covers what came before {rounds}"
    return f"the conversation has nothing before {rounds}"


def _summarize_to_best_cut(facts: ReductionFacts) -> WriteSummary | None:
    tokens = _summary_tokens(facts, facts.best_cut)
    return WriteSummary(cut=facts.best_cut.seq, max_tokens=tokens) if tokens else None


def _summarize_to_last_cut(facts: ReductionFacts) -> ExtractSummary | None:
    tokens, cut = _summary_tokens(facts, facts.last_cut), facts.last_cut.seq
    return ExtractSummary(cut=cut, max_tokens=tokens, reason=LEFT_TOO_MUCH, at_last_cut=True) if tokens else None


def _summary_tokens(facts: ReductionFacts, cut: CutPoint) -> int:
    """Return the maximum length of a summary up to the cut; 0 if it would be too short or save too little."""
    tokens = min(max_summary_tokens(facts.before, facts.limit, facts.settings), cut.covered_tokens * 2 // 3)
    return tokens if tokens >= MIN_SUMMARY_TOKENS else 0


def _shorten(facts: ReductionFacts, after_chars: int | None = None) -> ShortenEntries | None:
    """Return the first step of shortening, or the one after `after_chars`; None after the last step."""
    steps = (chars for chars in SHORTENED_CHARS if after_chars is None or chars < after_chars)
    chars = next(steps, None)
    return None if chars is None else ShortenEntries(max_chars=chars, max_tokens=facts.available_tokens)
