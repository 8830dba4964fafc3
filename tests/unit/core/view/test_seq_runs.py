"""Runs of seqs behave like a sorted list of them."""

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.view.context.seq_runs import SeqRuns

SEQS = st.sets(st.integers(1, 60)).map(sorted)


def make_runs(seqs: list[int]) -> SeqRuns:
    runs = SeqRuns()
    for seq in seqs:
        runs.append(seq)
    return runs


@given(SEQS, st.data())
def test_runs_hold_what_was_appended_and_not_removed(seqs: list[int], data: st.DataObject) -> None:
    removed = sorted(data.draw(st.sets(st.sampled_from(seqs)))) if seqs else []
    runs = make_runs(seqs)
    runs.remove(removed)
    kept = [seq for seq in seqs if seq not in removed]
    assert (list(runs), len(runs), runs.last) == (kept, len(kept), max(kept, default=0))
    assert [seq for seq in range(70) if seq in runs] == kept


@given(SEQS, st.integers(0, 70), st.integers(0, 70))
def test_a_range_gives_the_seqs_in_it(seqs: list[int], first: int, last: int) -> None:
    assert make_runs(seqs).between(first, last) == [seq for seq in seqs if first <= seq <= last]


def test_a_long_conversation_is_one_run() -> None:
    assert list(make_runs(list(range(1, 1001))).pairs()) == [(1, 1000)]
