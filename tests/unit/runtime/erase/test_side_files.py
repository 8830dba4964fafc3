"""Side files are erased through the erasers that the callers pass, before the store changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.harness.erase import SENTENCE, EraseHarness, run_on_disk
from tests.harness.replies import answers
from timeloom.core.blocks import UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.reader import ConversationUnknownError
from timeloom.runtime.erase.erase import delete_conversation_data, erase
from timeloom.stores.sqlite import SqliteStore

Call = tuple[ConversationId, Sequence[str]]


@dataclass
class RecordingEraser:
    """A `SideFileEraser` that records its calls, or fails with an error."""

    error: OSError | None = None
    calls: list[Call] = field(default_factory=list[Call])

    def __call__(self, conversation: ConversationId, user_texts: Sequence[str]) -> None:
        if self.error:
            raise self.error
        self.calls.append((conversation, user_texts))


def test_every_eraser_gets_the_erased_texts_of_users_only(tmp_path: Path) -> None:
    room, first, second = EraseHarness(tmp_path), RecordingEraser(), RecordingEraser()

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers("Noted."))
        await room.run_turn(store, "And now?", answers("Anything else?"))
        request = room.request(await room.path_of(store, UserPrompt))
        await erase(store, request, room.workspaces, "ann", SystemClock(), (first, second))
        assert first.calls == second.calls == [(room.conversation, (SENTENCE,))]

    run_on_disk(room, check)


def test_a_deleted_conversation_passes_on_all_texts_of_users(tmp_path: Path) -> None:
    room, eraser = EraseHarness(tmp_path), RecordingEraser()

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers("Noted."))
        await room.run_turn(store, "And now?", answers("Anything else?"))
        await delete_conversation_data(store, room.conversation, room.workspaces, (eraser,))
        assert eraser.calls == [(room.conversation, (SENTENCE, "And now?"))]
        with pytest.raises(ConversationUnknownError):
            await store.info(room.conversation)

    run_on_disk(room, check)


def test_a_side_file_that_cannot_be_erased_leaves_the_conversation_for_the_next_try(tmp_path: Path) -> None:
    room, eraser = EraseHarness(tmp_path), RecordingEraser(error=PermissionError("read-only"))

    async def check(store: SqliteStore) -> None:
        await room.run_turn(store, SENTENCE, answers("Noted."))
        before = await room.entries(store)
        with pytest.raises(PermissionError):
            await erase(store, room.request(), room.workspaces, "ann", SystemClock(), (eraser,))
        with pytest.raises(PermissionError):
            await delete_conversation_data(store, room.conversation, room.workspaces, (eraser,))
        assert await room.entries(store) == before
        eraser.error = None
        await erase(store, room.request(), room.workspaces, "ann", SystemClock(), (eraser,))
        assert eraser.calls == [(room.conversation, (SENTENCE,))]

    run_on_disk(room, check)
