"""What commands have in common: the data folder, a store in it, and errors that say what to do."""

import asyncio
import functools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec

import click

from timeloom.core.codes import CodedError
from timeloom.stores.sqlite import SqliteStore

P = ParamSpec("P")

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("data"),
    envvar="TIMELOOM_DATA_DIR",
    show_default=True,
    show_envvar=True,
    help="Folder with the conversations.",
)


def command_body(run: Callable[P, Awaitable[int]]) -> Callable[P, None]:
    """A click callback that runs the coroutine and exits with what it returns; coded errors become a sentence."""

    @functools.wraps(run)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        async def body() -> int:
            return await run(*args, **kwargs)

        try:
            sys.exit(asyncio.run(body()))
        except CodedError as error:
            complain(error)
            sys.exit(1)

    return call


@asynccontextmanager
async def existing_store(data_dir: Path) -> AsyncGenerator[SqliteStore]:
    """The store in a folder that must exist already."""
    if not (data_dir / "journal.db").exists():
        left = "its journal.db is gone" if (data_dir / "blobs").exists() else "`timeloom demo` writes one"
        raise click.BadParameter(
            f"there are no conversations in {click.format_filename(data_dir)}; {left}", param_hint="--data-dir"
        )
    async with await SqliteStore.open(data_dir, create=False) as store:
        yield store


def complain(error: CodedError, about: str = "") -> None:
    """Prints the error with its code, and what it is about where it does not say so itself."""
    where = f"{about}: " if about and about not in str(error) else ""
    click.echo(f"error: {where}{error} [{error.code}]", err=True)
