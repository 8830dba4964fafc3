"""Opens the data folder, runs coroutines and prints coded errors for all commands."""

import asyncio
import functools
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec

import click

from timeloom.cli.options import data_dir_option
from timeloom.cli.sanitize import sanitize
from timeloom.cli.signals import run_until_signalled
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.signer import Signer
from timeloom.ports.store import Store, StoreError
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.lost_files import SALVAGE_HINT

__all__ = [
    "async_command",
    "data_dir_option",
    "has_conversations",
    "open_existing_store",
    "open_store_for_reading",
    "print_error",
    "require_journal",
    "select_conversations",
]

P = ParamSpec("P")


def async_command(
    run: Callable[P, Awaitable[int]], *, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> Callable[P, None]:
    """Turn a coroutine function into a click callback that exits with the returned code.

    A `CodedError` is printed on standard error and exits with 1.
    """

    @functools.wraps(run)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        async def run_body() -> int:
            return await run(*args, **kwargs)

        try:
            sys.exit(run_until_signalled(run_body(), new_loop))
        except CodedError as error:
            print_error(error)
            sys.exit(1)

    return call


def has_conversations(data_dir: Path) -> bool:
    """Return whether the folder holds, or once held, conversations: its journal, payloads, heads or mark exist."""
    return any((data_dir / name).exists() for name in ("journal.db", "blobs", "heads", "wal.mark"))


@asynccontextmanager
async def open_existing_store(data_dir: Path, signer: Signer | None = None) -> AsyncGenerator[SqliteStore]:
    """Open the store of an existing data folder; raises `click.BadParameter` where there is no journal."""
    require_journal(data_dir)
    async with await SqliteStore.open(data_dir, create=False, signer=signer) as store:
        yield store


@asynccontextmanager
async def open_store_for_reading(data_dir: Path) -> AsyncGenerator[SqliteStore]:
    """Open the store of a data folder that may be read-only or damaged."""
    require_journal(data_dir)
    try:
        store = await SqliteStore.open(data_dir, create=False)
    except StoreError as error:
        if error.code not in ("store_unwritable", "store_damaged"):
            raise
        store = await SqliteStore.open_read_only(data_dir)
    async with store:
        yield store


def require_journal(data_dir: Path, param_hint: str = "--data-dir") -> None:
    """Raise `click.BadParameter` if the folder has no journal."""
    if not (data_dir / "journal.db").exists():
        hint = (
            f"its journal.db is missing; put it back from a backup; {SALVAGE_HINT}"
            if has_conversations(data_dir)
            else "`timeloom demo` creates one"
        )
        raise click.BadParameter(
            f"there are no conversations in {click.format_filename(data_dir)}; {hint}", param_hint=param_hint
        )


async def select_conversations(store: Store, only: str | None) -> AsyncIterator[ConversationId]:
    """Yield the conversation `only`, which must exist, or without it every conversation in the order of ids."""
    if only is not None:
        yield (await store.info(ConversationId(only))).id
        return
    last = ConversationId("")
    while page := await store.conversation_ids(after=last):
        for last in page:
            yield last


def print_error(error: CodedError, about: str = "") -> None:
    """Print the error with its code on standard error, prefixed with `about` unless its message mentions that."""
    prefix = f"{about}: " if about and about not in str(error) else ""
    # The message may quote untrusted text, for example a title or the holder of a conversation.
    click.echo(sanitize(f"error: {prefix}{error} [{error.code}]"), err=True)
