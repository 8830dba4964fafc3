"""Opens conversations of the local data folder, one at a time, with their models and tools."""

import difflib
import getpass
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol, Self

import click
from msgspec.structs import replace

from timeloom.app import Setting, SideModels, make_turns, open_session, open_tools
from timeloom.cli.command import existing_store
from timeloom.cli.sanitize import harmless
from timeloom.config.catalogue import ways_to_say
from timeloom.config.models import model_settings
from timeloom.config.settings import Settings
from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.journal import ConflictError
from timeloom.ports.model import Model
from timeloom.ports.reader import ConversationInfo, ConversationQuery
from timeloom.ports.store import Store
from timeloom.providers.registry import ModelNameError, default_model_name, open_model
from timeloom.runtime.context.fit_window import Compaction
from timeloom.runtime.fork.fork import Forked, fork
from timeloom.runtime.turn.loop import Turns
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.registry import ToolRegistry

HOLDER: Final = "timeloom chat"
"""The holder of the lease, shown to another program that tries to open the same conversation."""


class Listener(Protocol):
    """Receives the events of a conversation."""

    def delta(self, delta: LiveDelta) -> None:
        """Receive a piece of streamed text."""
        ...

    def block(self, entry: Entry) -> None:
        """Receive a stored entry."""
        ...

    def compaction(self, compaction: Compaction) -> None:
        """Receive the start or the result of a compaction."""
        ...


class OpenModels:
    """A cache of models by name: each is opened once, and all are closed when the context exits."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models: dict[str, Model] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for model in self._models.values():
            await model.close()

    def get(self, name: str) -> Model:
        """Return the model of that name, opened at the first call; raises `ModelNameError` for an unknown name."""
        if name not in self._models:
            taken = {model.name for model in self._models.values()}
            self._models[name] = open_model(name, model_settings(self._settings, name), taken=taken)
        return self._models[name]

    def beside(self, name: str) -> SideModels:
        """Return the models for titles and summaries of a conversation that uses the model `name`."""
        wanted = (self._settings.title_model, self._settings.summary_model)
        title, summary = (None if one == "none" else self.get(one or name) for one in wanted)
        return SideModels(title=title, summary=summary)


class Rooms:
    """The user's conversations in the data folder. At most one is open: opening another closes it."""

    def __init__(
        self,
        store: Store,
        models: OpenModels,
        settings: Settings,
        header: ConversationStarted,
        tools: ToolRegistry,
        *,
        holder: str = HOLDER,
    ) -> None:
        self.store = store
        self.settings = settings
        self.user = header.user
        self._models = models
        self._tools = tools
        self._header = header
        self._holder = holder
        self._open: Turns | None = None
        self._warned = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def open(self, conversation: ConversationId | None, model_name: str, listener: Listener) -> Turns:
        """Open that conversation, or a new one, with the model of that name, and return its turn loop.

        If it cannot be opened, the previous conversation stays open, unless it is the same one.
        """
        model, side = self._models.get(model_name), self._models.beside(model_name)
        if self._open is not None and self._open.session.conversation == conversation:
            await self._close()
        session = await open_session(self.store, conversation, self._header, holder=self._holder)
        await self._close()
        session.listen(listener.block)
        self._open = make_turns(session, model, Setting.of(self.settings), listener.delta, self._tools, side)
        self._open.room.listen(listener.compaction)
        self._warn([spec.tool_id for spec in self._open.workshop.registry.specs()])
        return self._open

    async def find(self, words: str, most: int) -> list[ConversationInfo]:
        """Return up to `most` non-empty conversations of the user whose messages contain the words, newest first."""
        found: list[ConversationInfo] = []
        header, cursor = self._header, ""
        while len(found) < most:
            query = ConversationQuery(
                tenant=header.tenant, project=header.project, user=header.user, words=words, cursor=cursor
            )
            page = await self.store.conversations(query)
            found += [info for info in page.conversations if info.tail > 1]
            cursor = page.cursor
            if not cursor:
                break
        return found[:most]

    async def fork(self, conversation: ConversationId, turn: str | None = None) -> Forked:
        """Copy the conversation up to the end of `turn` (by default the last ended turn) into a new one."""
        workspaces = Setting.of(self.settings).workspaces
        return await fork(self.store, conversation, workspaces, SystemClock(), RandomIds(), turn=turn)

    def _warn(self, tools: Sequence[str]) -> None:
        """Warn once about policy entries that match no tool, because they protect nothing."""
        if self._warned:
            return
        self._warned = True
        policy = self.settings.policy
        for key, names in (("ask_before", policy.ask_before), ("calls_per_turn", policy.calls_per_turn)):
            for name in unknown_tools(names, tools):
                near = difflib.get_close_matches(name, tools, n=1, cutoff=0)
                hint = f"; did you mean {near[0]}?" if near else ""
                click.echo(harmless(f"warning: policy.{key} names {name!r}, which is not a tool{hint}"), err=True)

    async def _close(self) -> None:
        if self._open is not None:
            await self._open.titles.give_up()
            await self._open.session.close()
            self._open = None


def unknown_tools(names: Iterable[str], tools: Sequence[str]) -> list[str]:
    """Return the names that are neither a tool, nor a family like `react.*`, nor `*`."""
    families = {f"{tool.rpartition('.')[0]}.*" for tool in tools}
    return [name for name in names if name not in {*tools, *families, "*"}]


def with_model(settings: Settings) -> Settings:
    """Return the settings with a model: the configured one, otherwise the installed local model.

    Raises `click.UsageError` if neither exists.
    """
    if settings.model:
        return settings
    try:
        return replace(settings, model=default_model_name({}))
    except ModelNameError as error:
        raise click.UsageError(f"{error}; or set a default: {ways_to_say('model')}") from error


@asynccontextmanager
async def open_rooms(settings: Settings, *, create: bool = True, holder: str = HOLDER) -> AsyncGenerator[Rooms]:
    """Open the conversations of the data folder; `create` makes the folder if it does not exist."""
    header = ConversationStarted(tenant="local", project="default", user=_user())
    async with OpenModels(settings) as models, open_tools(settings) as tools:
        # Before the folder is created, so that an unknown model name leaves no files behind.
        models.get(settings.model)
        folder = await SqliteStore.open(settings.data_dir) if create else existing_store(settings.data_dir)
        try:
            async with folder as store, Rooms(store, models, settings, header, tools, holder=holder) as rooms:
                yield rooms
        except ConflictError as error:
            hint = "another program has written to this conversation; open it again to continue"
            raise CodedError(error.code, f"{hint} ({error})") from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
