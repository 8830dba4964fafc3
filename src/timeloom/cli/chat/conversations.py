"""Opens conversations of the local data folder, one at a time, with their models and tools."""

import difflib
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol, Self

import click
from msgspec.structs import replace

from timeloom.agent.turn_builder import TurnRunnerBuilder
from timeloom.app import AgentSettings, ModelPool, open_session, open_tools
from timeloom.bundles.registry import BundleRegistry
from timeloom.cli.command import open_existing_store
from timeloom.cli.sanitize import sanitize
from timeloom.config.catalogue import describe_how_to_set
from timeloom.config.settings import Settings
from timeloom.config.signing import open_signer
from timeloom.core.blocks import ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.platform.account import current_user
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.journal import ConflictError
from timeloom.ports.reader import ConversationInfo, ConversationQuery
from timeloom.ports.store import Store
from timeloom.ports.tool import Tool
from timeloom.providers.registry import ModelNameError, default_model_name
from timeloom.runtime.context.fit_window import CompactionEvent
from timeloom.runtime.fork.fork import ForkResult, fork
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.sqlite import SqliteStore

HOLDER: Final = "timeloom chat"
"""The holder of the lease, shown to another program that tries to open the same conversation."""


class ChatListener(Protocol):
    """Receives the events of a conversation."""

    def on_delta(self, delta: LiveDelta) -> None:
        """Receive a piece of streamed text."""
        ...

    def on_block(self, entry: Entry) -> None:
        """Receive a stored entry."""
        ...

    def on_compaction(self, compaction: CompactionEvent) -> None:
        """Receive the start or the result of a compaction."""
        ...


class LocalConversations:
    """The user's conversations in the data folder. At most one is open: opening another closes it."""

    def __init__(
        self,
        store: Store,
        models: ModelPool,
        settings: Settings,
        header: ConversationStarted,
        builder: TurnRunnerBuilder,
        *,
        holder: str = HOLDER,
    ) -> None:
        self.store = store
        self.settings = settings
        self.user = header.user
        self._models = models
        self._builder = builder
        self._header = header
        self._holder = holder
        self._open: TurnRunner | None = None
        self._warned = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def open(self, conversation: ConversationId | None, model_name: str, listener: ChatListener) -> TurnRunner:
        """Open that conversation, or a new one, with the model of that name, and return its turn loop.

        If it cannot be opened, the previous conversation stays open, unless it is the same one.
        """
        model, side = self._models.get(model_name), self._models.get_side_models(model_name)
        if self._open is not None and self._open.session.conversation == conversation:
            await self._close()
        if conversation is None:
            await self._builder.check(self._header.bundle)
        session = await open_session(self.store, conversation, self._header, holder=self._holder)
        try:
            turns = self._builder.build(session, model, listener.on_delta, side)
        except CodedError:
            await session.close()
            raise
        await self._close()
        session.listen(listener.on_block)
        self._open = turns
        self._open.context_fitter.listen(listener.on_compaction)
        self._warn_about_unknown_tools([spec.tool_id for spec in self._open.action_context.registry.specs()])
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

    async def fork(self, conversation: ConversationId, turn: str | None = None) -> ForkResult:
        """Copy the conversation up to the end of `turn` (by default the last ended turn) into a new one."""
        workspaces = AgentSettings.from_settings(self.settings).workspaces
        return await fork(self.store, conversation, workspaces, SystemClock(), RandomIds(), turn=turn)

    def _warn_about_unknown_tools(self, tools: Sequence[str]) -> None:
        """Warn once about policy entries that match no tool, because they protect nothing."""
        if self._warned:
            return
        self._warned = True
        policy = self.settings.policy
        for key, names in (("ask_before", policy.ask_before), ("calls_per_turn", policy.calls_per_turn)):
            for name in unknown_tools(names, tools):
                near = difflib.get_close_matches(name, tools, n=1, cutoff=0)
                hint = f"; did you mean {near[0]}?" if near else ""
                click.echo(sanitize(f"warning: policy.{key} names {name!r}, which is not a tool{hint}"), err=True)

    async def _close(self) -> None:
        if self._open is not None:
            await self._open.titles.stop()
            await self._open.session.close()
            self._open = None


def unknown_tools(names: Iterable[str], tools: Sequence[str]) -> list[str]:
    """Return the names that are neither a tool, nor a family like `react.*`, nor `*`."""
    families = {f"{tool.rpartition('.')[0]}.*" for tool in tools}
    return [name for name in names if name not in {*tools, *families, "*"}]


def with_default_model(settings: Settings) -> Settings:
    """Return the settings with a model: the configured one, otherwise the installed local model.

    Raises `click.UsageError` if neither exists.
    """
    if settings.model:
        return settings
    try:
        return replace(settings, model=default_model_name({}))
    except ModelNameError as error:
        raise click.UsageError(f"{error}; or set a default: {describe_how_to_set('model')}") from error


@asynccontextmanager
async def open_local_conversations(
    settings: Settings,
    *,
    create: bool = True,
    holder: str = HOLDER,
    tools: Sequence[Tool] = (),
    bundles: BundleRegistry | None = None,
) -> AsyncGenerator[LocalConversations]:
    """Open the conversations of the data folder; `create` makes the folder if it does not exist.

    `tools` are added to those of the settings. New conversations belong to the first one of the `bundles`.
    """
    bundles = BundleRegistry() if bundles is None else bundles
    header = ConversationStarted(tenant="local", project="default", user=current_user(), bundle=bundles.default)
    async with ModelPool(settings) as models, open_tools(settings) as built_in_tools:
        registry = built_in_tools.with_tools(tools)
        # Before the folder is created, so that an unknown model name leaves no files behind.
        models.get(settings.model)
        signer = open_signer(settings)
        opening_store = (
            await SqliteStore.open(settings.data_dir, signer=signer)
            if create
            else open_existing_store(settings.data_dir, signer)
        )
        try:
            async with (
                opening_store as store,
                LocalConversations(
                    store,
                    models,
                    settings,
                    header,
                    TurnRunnerBuilder(store, AgentSettings.from_settings(settings), registry, bundles),
                    holder=holder,
                ) as conversations,
            ):
                yield conversations
        except ConflictError as error:
            hint = "another program has written to this conversation; open it again to continue"
            raise CodedError(error.code, f"{hint} ({error})") from error
