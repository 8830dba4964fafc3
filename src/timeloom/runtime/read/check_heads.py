"""Compares a store with heads that were kept elsewhere."""

from collections.abc import Iterable

from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import Store, StoreProblem
from timeloom.wire.chain import hash_link
from timeloom.wire.heads import Head


def group_heads(heads: Iterable[Head]) -> dict[ConversationId, dict[int, Head]]:
    """Return the heads by conversation and seq."""
    grouped: dict[ConversationId, dict[int, Head]] = {}
    for head in heads:
        grouped.setdefault(head.conversation, {})[head.seq] = head
    return grouped


async def check_heads(store: Store, heads: Iterable[Head]) -> list[StoreProblem]:
    """Return a problem for each conversation that is missing, shorter than its heads, or another one."""
    problems: list[StoreProblem] = []
    for conversation, by_seq in group_heads(heads).items():
        problem = await _check_conversation(store, conversation, by_seq)
        if problem:
            problems.append(problem)
    return problems


async def _check_conversation(
    store: Store, conversation: ConversationId, heads: dict[int, Head]
) -> StoreProblem | None:
    try:
        tail = (await store.info(conversation)).tail
    except ConversationUnknownError:
        return StoreProblem(
            "journal_truncated", f"conversation {conversation} is missing: it was deleted or lost", conversation, 1
        )
    for seq, head in sorted(heads.items()):
        if seq > tail:
            return StoreProblem(
                "journal_truncated",
                f"entries {tail + 1} to {seq} of conversation {conversation} are missing: a turn ended at {head.ts}",
                conversation,
                tail + 1,
            )
        links = await store.load_chain(conversation, after=seq - 1, limit=1)
        if [hash_link(link).hex() for link in links] != [head.hash]:
            return StoreProblem(
                "chain_broken",
                f"entry {seq} of conversation {conversation} or an earlier one is not the one whose hash was written "
                f"at a turn's end, {head.ts}",
                conversation,
                seq,
            )
    return None
