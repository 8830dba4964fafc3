"""When the result of a call becomes durable: at once if the call cannot be undone, else with the next step."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, calls, run
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.leases import Lease
from timeloom.stores.in_memory.store import MemoryStore


class BatchStore(MemoryStore):
    """A memory store that keeps which types of blocks each append stored together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        self.batches.append([draft.block.type_name for draft in drafts])
        return await super().append(conversation, expected_tail, drafts, lease)


async def batch_with_result(tmp_path: Path, tool_id: str) -> list[str]:
    """Return the types that were stored together with the result of one call."""
    stage, store = TurnHarness(tmp_path, calls(tool_id), answers()), BatchStore()
    stage.store = store
    stage.setting = replace(stage.setting, policies=())
    turns = await stage.open()
    await turns.run("go")
    assert len(stage.effects) == 1
    (batch,) = [batch for batch in store.batches if "react.tool.result" in batch]
    return batch


def test_the_result_of_an_irreversible_call_is_durable_before_the_next_step(tmp_path: Path) -> None:
    async def check() -> None:
        assert set(await batch_with_result(tmp_path, "t.send")) == {"react.tool.result"}

    run(check)


def test_the_result_of_a_call_that_may_be_repeated_is_stored_with_the_next_step(tmp_path: Path) -> None:
    async def check() -> None:
        batch = await batch_with_result(tmp_path, "t.look")
        assert batch.index("react.tool.result") < batch.index("react.round.start") < batch.index("react.model.call")

    run(check)
