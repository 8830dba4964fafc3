"""Harness for archives: a data folder with conversations, and archives as lists of members."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from timeloom.core.blocks import Attachment, ConversationStarted, Thinking, TurnEnded, TurnStarted, UserPrompt
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.store import Store
from timeloom.runtime.archive.import_conversations import ImportOptions, ImportResult, import_conversation
from timeloom.runtime.archive.read_archive import ArchiveReader
from timeloom.runtime.archive.tar_members import iter_members, read_member, write_end, write_member
from timeloom.runtime.archive.write_archive import ArchiveWriter

TS = "2026-02-09T02:14:32.676425Z"
TURN = TurnId("turn_1")
Members = list[tuple[str, bytes]]


async def add_conversation(store: Store, data: Path, name: str, *, ended: bool = True) -> ConversationId:
    """Store a conversation with a turn, a payload of its own, a shared payload and two files."""
    conversation = ConversationId(name)
    blocks = [
        TurnStarted(n=1),
        UserPrompt(text=f"Which ferry is cheapest? {name}"),
        Thinking(round=1, text=f"{name} " * 8_000),
        Attachment(artifact_path=f"fi:{TURN}.user.attachments/a.png", mime="image/png", data=bytes(range(256)) * 200),
        *([TurnEnded(reason="completed")] if ended else []),
    ]
    drafts = [Draft(NO_TURN, TS, ConversationStarted(tenant="home", project="demo", user="ann"))]
    await store.append(conversation, 0, drafts + [Draft(TURN, TS, block) for block in blocks])
    for path, text in (("files/a.md", "# A note"), ("outputs/sub/b.csv", f"{name},1\n")):
        file = data / "workspaces" / conversation / TURN / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return conversation


async def write_archive(store: Store, data: Path, only: Iterable[ConversationId] | None = None) -> bytes:
    """Return the archive of the conversations, or of all."""
    out = BytesIO()
    writer = ArchiveWriter(out)
    for conversation in only or await store.conversation_ids():
        await writer.add(store, conversation, data / "workspaces")
    writer.finish()
    return out.getvalue()


async def read_archive(
    store: Store, data: Path, archive: bytes, *, skip_existing: bool = False, open_turns: bool = True
) -> list[ImportResult]:
    """Import all conversations of the archive."""
    options = ImportOptions(skip_existing=skip_existing, open_turns=open_turns)
    return [
        await import_conversation(store, data, data / "workspaces", found, options)
        for found in ArchiveReader(BytesIO(archive)).iter_conversations()
    ]


def check_archive(archive: bytes) -> int:
    """Check the archive and return the number of its conversations."""
    return len(list(ArchiveReader(BytesIO(archive)).iter_conversations()))


def unpack(archive: bytes) -> Members:
    """Return the names and contents of all members."""
    file = BytesIO(archive)
    return [(member.name, read_member(file, member, len(archive))) for member in iter_members(file)]


def pack(members: Members) -> bytes:
    """Return the archive with these members."""
    out = BytesIO()
    for name, data in members:
        write_member(out, name, BytesIO(data), len(data))
    write_end(out)
    return out.getvalue()
