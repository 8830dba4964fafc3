"""Copies the workspace files of turns into a fork; files of a cut turn are copied as they were at the cut.

The files are copies and not hard links. Tools refuse a file with a second name, because that name may be anywhere. A
program that writes into its file would also change the file of the other conversation.
"""

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.paths import FilePath, PathError, PhysicalPath, parse_long, to_physical
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry, microseconds_between
from timeloom.core.view.artifacts import ArtifactsView
from timeloom.core.view.views import Views
from timeloom.ports.blobs import BlobError
from timeloom.ports.clock import timestamp
from timeloom.ports.store import Store
from timeloom.tools.artifacts import find_stored_file
from timeloom.tools.workspace import RESERVED_PREFIX, Workspace


class CutTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that a fork cuts in two: its entries up to the cut, and the artifacts of the whole conversation."""

    turn_id: TurnId
    entries: tuple[Entry, ...]
    all_artifacts: ArtifactsView


async def copy_files(store: Store, source: Path, target: Path, turns: Sequence[TurnId], cut: CutTurn | None) -> None:
    """Copy the folders of these turns; the name of the source folder must be its conversation's id."""
    try:
        await asyncio.to_thread(_copy_turns, source, target, turns, cut)
        if cut:
            await _restore_versions(store, ConversationId(source.name), target, cut)
    except OSError as error:
        await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
        name = errno.errorcode.get(error.errno or 0, "an unknown error")
        raise CodedError("workspace_failed", f"the workspace files cannot be copied: {name}") from error


def _copy_turns(source: Path, target: Path, turns: Sequence[TurnId], cut: CutTurn | None) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.mkdir(mode=0o700)
    for turn in turns:
        is_wanted = _unchanged_since(cut) if cut and turn == cut.turn_id else _accept_all
        _copy_tree(source / turn, target / turn, is_wanted)


def _accept_all(_file: Path, _physical: str) -> bool:
    return True


def _unchanged_since(cut: CutTurn) -> Callable[[Path, str], bool]:
    """Return a predicate for files that are unchanged since the cut, by recorded versions and modification time."""
    last = cut.entries[-1]
    changed = {
        _physical_path(path)
        for path, seqs in _seqs_by_path(cut.all_artifacts).items()
        if any(seq > last.seq for seq in seqs)
    }

    def is_wanted(file: Path, place: str) -> bool:
        written = timestamp(file.lstat().st_mtime_ns // 1000)
        return place not in changed and not microseconds_between(last.ts, written)

    return is_wanted


def _seqs_by_path(files: ArtifactsView) -> dict[str, list[int]]:
    return {
        path: [seq for version in known.versions for seq in (*version.content_seqs, version.digest_seq or 0)]
        for path, known in files.artifacts.items()
    }


def _physical_path(path: str) -> str:
    """Return the physical path of that logical path; empty if it names no file."""
    try:
        found = parse_long(path)
        return str(to_physical(found)) if isinstance(found, FilePath) else ""
    except PathError:
        return ""


def _copy_tree(source: Path, target: Path, is_wanted: Callable[[Path, str], bool]) -> None:
    # Symbolic links are not followed, because they may lead outside the conversation.
    for folder, folders, names in os.walk(source):
        here = Path(folder)
        there = target / here.relative_to(source)
        there.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name in [*names, *(name for name in folders if (here / name).is_symlink())]:
            place = "/".join((source.name, *here.relative_to(source).parts, name))
            if not name.startswith(RESERVED_PREFIX):
                _copy(here / name, there / name, lambda file, place=place: is_wanted(file, place))


def _copy(source: Path, target: Path, is_wanted: Callable[[Path], bool]) -> None:
    try:
        mode = source.lstat().st_mode
        # Pipes and sockets have no content to copy.
        if (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) and is_wanted(source):
            shutil.copy2(source, target, follow_symlinks=False)
    except FileNotFoundError:
        # The source conversation may be running and may have removed the file.
        return


async def _restore_versions(store: Store, source: ConversationId, target: Path, cut: CutTurn) -> None:
    """Write the versions that the timeline had at the cut, for files that were not copied."""
    known = ArtifactsView()
    for entry in cut.entries:
        known.add(entry)
    past = _PastTimeline(store, source, (await store.info(source)).tenant, Views(artifacts=known))
    workspace = Workspace(target)
    for path in known.artifacts:
        place = _physical_path(path)
        if not place.startswith(f"{cut.turn_id}/") or (target / place).exists():
            continue
        found = parse_long(path)
        assert isinstance(found, FilePath)
        try:
            stored = await find_stored_file(found, past)
        except BlobError:
            # The content was erased or lost, so the fork cannot have the file either.
            continue
        if stored and stored.complete:
            await asyncio.to_thread(workspace.write, PhysicalPath(place), stored.data)


@dataclass(frozen=True, slots=True)
class _PastTimeline:
    """Reads the timeline of the source as it was at the cut."""

    store: Store
    conversation: ConversationId
    tenant: str
    views: Views

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        return [entry for seq in seqs for entry in await self.store.load(self.conversation, after=seq - 1, limit=1)]

    async def payload(self, ref: BlobRef) -> bytes:
        return await self.store.read_blob(self.tenant, ref)
