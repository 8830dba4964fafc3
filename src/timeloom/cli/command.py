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
from timeloom.cli.sanitize import harmless
from timeloom.cli.signals import run_until_signalled
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.store import Store
from timeloom.stores.sqlite import SqliteStore

__all__ = ["chosen_conversations", "command_body", "complain", "data_dir_option", "existing_store", "has_conversations"]

P = ParamSpec("P")


def command_body(
    run: Callable[P, Awaitable[int]], *, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> Callable[P, None]:
    """Turn a coroutine function into a click callback that exits with the returned code.

    A `CodedError` is printed on standard error and exits with 1.
    """

    @functools.wraps(run)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        async def body() -> int:
            return await run(*args, **kwargs)

        try:
            sys.exit(run_until_signalled(body(), new_loop))
        except CodedError as error:
            complain(error)
            sys.exit(1)

    return call


def has_conversations(data_dir: Path) -> bool:
    """Return whether the folder holds, or once held, conversations: a journal or payloads exist."""
    return (data_dir / "journal.db").exists() or (data_dir / "blobs").exists()


@asynccontextmanager
async def existing_store(data_dir: Path) -> AsyncGenerator[SqliteStore]:
    """Open the store of an existing data folder; raises `click.BadParameter` where there is no journal."""
    if not (data_dir / "journal.db").exists():
        left = "its journal.db is missing" if (data_dir / "blobs").exists() else "`timeloom demo` creates one"
        raise click.BadParameter(
            f"there are no conversations in {click.format_filename(data_dir)}; {left}", param_hint="--data-dir"
        )
    async with await SqliteStore.open(data_dir, create=False) as store:
        yield store


async def chosen_conversations(store: Store, only: str | None) -> AsyncIterator[ConversationId]:
    """Yield the conversation `only`, which must exist, or without it every conversation in the order of ids."""
    if only is not None:
        yield (await store.info(ConversationId(only))).id
        return
    last = ConversationId("")
    while page := await store.conversation_ids(after=last):
        for last in page:
            yield last


def complain(error: CodedError, about: str = "") -> None:
    """Print the error with its code on standard error, prefixed with `about` unless its message mentions that."""
    where = f"{about}: " if about and about not in str(error) else ""
    # The message may quote untrusted text, for example a title or the holder of a conversation.
    click.echo(harmless(f"error: {where}{error} [{error.code}]"), err=True)
