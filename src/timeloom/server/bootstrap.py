"""Starts a server from its settings: authentication, services and the HTTP server on a socket."""

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final

import msgspec

from timeloom import __version__
from timeloom.agent.conversation_factory import ConversationFactory, EntryListenerFactory
from timeloom.app import NO_SIDE_MODELS, AgentSettings, ModelPool, SideModels, make_hub_settings, open_tools
from timeloom.bundles.bundle import BundleWidget
from timeloom.bundles.registry import BundleRegistry
from timeloom.config.errors import ServerConfigError
from timeloom.config.sections.governance import NoLimit
from timeloom.config.sections.server import ServerLimitSettings, ServerSettings
from timeloom.config.settings import Settings
from timeloom.config.signing import open_signer
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.data_folder import build_side_file_erasers
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.ports.tool import Tool
from timeloom.runtime.erase.side_files import SideFileEraser
from timeloom.runtime.hub.hub import Hub, HubSettings
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.server.auth.audit_log import AuditLog
from timeloom.server.auth.authenticate import Authenticator
from timeloom.server.auth.modes import open_access
from timeloom.server.auth.retention import RetentionJob, run_daily
from timeloom.server.auth.revocation import CHECK_INTERVAL_S, RevocationMonitor
from timeloom.server.http.uploads import UploadLimits
from timeloom.server.http_server import HttpServer, listen
from timeloom.server.observability.metrics import Metrics, measure_loop_lag
from timeloom.server.rate_limit import RateLimiter, RateLimits
from timeloom.server.rerun_jobs import RerunJobs
from timeloom.server.services import Services, WidgetKey, Widgets
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.registry import ToolRegistry

GC_THRESHOLDS: Final = (10_000, 20, 20)
"""Thresholds of Python's garbage collector for its three generations.

Smaller values pause all streams more often, for 100 ms with hundreds of streams. Larger values keep closed
conversations in memory for longer."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that accepts requests until it is shut down."""

    url: str
    """The address with the port, for example `http://127.0.0.1:8700`."""
    token: str
    """The token of the mode `local`; empty in the other modes, whose clients have tokens already."""
    services: Services
    http_server: HttpServer
    serving: "asyncio.Task[None]"

    def shut_down(self) -> None:
        """End all streams and accept no new connections; a second call does not wait for running requests either."""
        self.http_server.shut_down()

    def shut_down_on_signals(self) -> None:
        """Shut down on SIGINT and SIGTERM."""
        self.http_server.shut_down_on_signals()

    async def wait(self) -> None:
        """Wait until the server has shut down; raise the error that ended it, if any."""
        await asyncio.wait({self.serving})
        self.serving.result()


@asynccontextmanager
async def serve(
    settings: Settings,
    *,
    tools: Sequence[Tool] = (),
    bundles: BundleRegistry | None = None,
    side_file_erasers: Sequence[SideFileEraser] = (),
    channels: Sequence[DeclaredChannel] = (),
    widgets: Widgets | None = None,
) -> AsyncGenerator[Server]:
    """Run a server while the context is open; turns that an earlier run left open are resumed.

    When the context exits, streams end and running turns get `server.grace_s` seconds. `tools` are available in all
    conversations, beside those of the settings. New conversations belong to one of the `bundles`, by default the first.
    `side_file_erasers` erase conversations from further files, beside those that timeloom keeps in the data folder.
    `channels` are declared in all conversations, and `widgets` show their texts on the page; bundles add their own.
    Raises `ServerConfigError` or `ListenError` before it creates the data folder.
    """
    server = settings.server
    async with open_access(server) as access:
        with listen(server.host, server.port) as listener:
            opening = open_services(
                settings,
                access.authenticator,
                tools=tools,
                bundles=bundles,
                side_file_erasers=side_file_erasers,
                channels=channels,
                widgets=widgets,
            )
            async with opening as services:
                http_server = HttpServer(services, proxies=server.proxies)
                services.hub.resume_open_turns()
                async with (
                    _log_lifetime(_url(listener), settings),
                    http_server.serve_in_background(listener) as serving,
                ):
                    yield Server(
                        url=_url(listener),
                        token=access.token,
                        services=services,
                        http_server=http_server,
                        serving=serving,
                    )


@asynccontextmanager
async def open_services(
    settings: Settings,
    authenticator: Authenticator | None = None,
    *,
    tools: Sequence[Tool] = (),
    bundles: BundleRegistry | None = None,
    side_file_erasers: Sequence[SideFileEraser] = (),
    channels: Sequence[DeclaredChannel] = (),
    widgets: Widgets | None = None,
) -> AsyncGenerator[Services]:
    """Open the store, models and tools of these settings, and yield the services of a server over them.

    Without an authenticator, requests are authenticated as `server.mode` says. `tools` are added to those of the
    settings; `channels` and `widgets` are as in `serve`. `build_app` turns the services into an ASGI application.
    """
    async with AsyncExitStack() as stack:
        if authenticator is None:
            authenticator = (await stack.enter_async_context(open_access(settings.server))).authenticator
        models = await stack.enter_async_context(ModelPool(settings))
        registry = (await stack.enter_async_context(open_tools(settings))).with_tools(tools)
        make_entry_listener = await stack.enter_async_context(open_telemetry(settings))
        # Before the folder is created, so that an unknown model name leaves no files behind.
        model, side_models = models.get(settings.model), models.get_side_models(settings.model)
        rerun_models = open_rerun_models(models, settings.server)
        store = await stack.enter_async_context(await SqliteStore.open(settings.data_dir, signer=open_signer(settings)))
        parts = ServerParts.from_settings(
            settings,
            store=store,
            model=model,
            side_models=side_models,
            rerun_models=rerun_models,
            tools=registry,
            bundles=bundles,
            agent_settings=msgspec.structs.replace(AgentSettings.from_settings(settings), channels=tuple(channels)),
            authenticator=authenticator,
            side_file_erasers=side_file_erasers,
            make_entry_listener=make_entry_listener,
            widgets=widgets,
        )
        services = await stack.enter_async_context(build_services(parts))
        await stack.enter_async_context(run_daily(_retention_job(settings, parts)))
        yield services


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """The store, models, tools and limits that the services of a server are built from."""

    store: Store
    model: Model
    side_models: SideModels = NO_SIDE_MODELS
    rerun_models: tuple[tuple[Model, Model | None], ...] = ()
    """Further models that users may choose for re-runs, each with its model for summaries."""
    tools: ToolRegistry
    bundles: BundleRegistry = field(default_factory=BundleRegistry)
    agent_settings: AgentSettings
    hub_settings: HubSettings
    authenticator: Authenticator
    access_policy: AccessPolicy
    rate_limits: RateLimits
    upload_limits: UploadLimits
    max_body_bytes: int
    drain_timeout_s: float = 3.0
    """Seconds that a client may take to receive the last event of its stream before the connection is closed."""
    revocation_interval_s: float = CHECK_INTERVAL_S
    side_file_erasers: tuple[SideFileEraser, ...] = ()
    make_entry_listener: EntryListenerFactory | None = None
    widgets: Widgets = field(default_factory=dict[WidgetKey, BundleWidget])
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        store: Store,
        model: Model,
        side_models: SideModels,
        rerun_models: tuple[tuple[Model, Model | None], ...],
        tools: ToolRegistry,
        agent_settings: AgentSettings,
        authenticator: Authenticator,
        side_file_erasers: Sequence[SideFileEraser] = (),
        make_entry_listener: EntryListenerFactory | None = None,
        widgets: Widgets | None = None,
        bundles: BundleRegistry | None = None,
    ) -> "ServerParts":
        """Return the parts with the limits and rules of the server settings."""
        server, limits = settings.server, settings.server.limits
        return cls(
            store=store,
            model=model,
            side_models=side_models,
            rerun_models=rerun_models,
            tools=tools,
            agent_settings=agent_settings,
            hub_settings=make_hub_settings(server),
            authenticator=authenticator,
            access_policy=_access_policy(server),
            rate_limits=_rate_limits(limits),
            upload_limits=_upload_limits(limits),
            max_body_bytes=limits.max_body_bytes,
            side_file_erasers=(*build_side_file_erasers(agent_settings.data_dir), *side_file_erasers),
            make_entry_listener=make_entry_listener,
            widgets=widgets or {},
            bundles=bundles or BundleRegistry(),
        )


def open_rerun_models(models: ModelPool, server: ServerSettings) -> tuple[tuple[Model, Model | None], ...]:
    """Return the further models that users may choose for re-runs, each with its model for summaries."""
    return tuple((models.get(name), models.get_side_models(name).summary) for name in server.models)


@asynccontextmanager
async def build_services(parts: ServerParts) -> AsyncGenerator[Services]:
    """Connect these parts and yield the services; running turns get their grace period when the context exits."""
    factory = ConversationFactory(
        store=parts.store,
        model=parts.model,
        setting=parts.agent_settings,
        clock=parts.clock,
        ids=parts.ids,
        tools=parts.tools,
        side=parts.side_models,
        bundles=parts.bundles,
    )
    factory.prepare()
    hub = Hub(parts.store, factory, parts.clock, parts.ids, parts.hub_settings)
    async with hub, serve_hub(hub, factory, parts) as services:
        yield services


@asynccontextmanager
async def serve_hub(hub: Hub, factory: ConversationFactory, parts: ServerParts) -> AsyncGenerator[Services]:
    """Yield the services of a server over an open hub and the factory of its conversations."""
    metrics = Metrics()
    factory.observers.append(metrics)
    if parts.make_entry_listener:
        factory.make_entry_listeners.append(parts.make_entry_listener)
    choice = ((parts.model, parts.side_models.summary), *parts.rerun_models)
    rerun_factories = {model.name: factory.rerun_opener(model, summary) for model, summary in choice}
    async with (
        RerunJobs(factory, rerun_factories, parts.hub_settings.grace_s, parts.rate_limits) as reruns,
        measure_loop_lag(metrics),
    ):
        metrics.export_live_counts(hub)
        yield Services(
            store=parts.store,
            hub=hub,
            bundles=parts.bundles,
            reruns=reruns,
            authenticator=parts.authenticator,
            revocation_monitor=RevocationMonitor(parts.authenticator, interval_s=parts.revocation_interval_s),
            audit_log=AuditLog(parts.agent_settings.data_dir / "audit"),
            workspaces=parts.agent_settings.workspaces,
            side_file_erasers=parts.side_file_erasers,
            clock=parts.clock,
            ids=parts.ids,
            max_body_bytes=parts.max_body_bytes,
            drain_timeout_s=parts.drain_timeout_s,
            uploads=parts.upload_limits,
            access_policy=parts.access_policy,
            rate_limiter=RateLimiter(parts.rate_limits),
            metrics=metrics,
            widgets=parts.widgets,
        )


@asynccontextmanager
async def _log_lifetime(url: str, settings: Settings) -> AsyncGenerator[None]:
    """Log the start and the stop of the server: its version, mode, address and data folder."""
    fields = {
        "version": __version__,
        "mode": settings.server.mode,
        "address": url,
        "data_dir": str(settings.data_dir.absolute()),
    }
    _logger.info("server started", extra={"fields": fields})
    try:
        yield
    finally:
        _logger.info("server stopped", extra={"fields": fields})


def tune_garbage_collection() -> None:
    """Exclude the objects that exist now from garbage collection; for a process that only runs the server.

    They live as long as the server, and scanning them would pause all streams.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@asynccontextmanager
async def open_telemetry(settings: Settings) -> AsyncGenerator[EntryListenerFactory | None]:
    """Yield the listeners that export spans to the endpoint of the settings; None without one."""
    options = settings.telemetry
    if not options.endpoint:
        yield None
        return
    try:
        from timeloom.server.observability import telemetry as exporter  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ServerConfigError(f"telemetry needs `pip install 'timeloom[telemetry]'`: {error}") from error

    async with exporter.open_telemetry(options.endpoint, content=options.content) as telemetry:
        yield telemetry.listener_for


def _retention_job(settings: Settings, parts: ServerParts) -> RetentionJob | None:
    days = settings.retention.days
    if days == "none":
        return None
    return RetentionJob(parts.store, days, settings.data_dir, parts.clock, parts.ids, parts.side_file_erasers)


def _access_policy(server: ServerSettings) -> AccessPolicy:
    return AccessPolicy(
        approvals=server.approvals,
        metrics=server.metrics,
        hosts=tuple(name.lower() for name in server.hosts),
        is_local=server.mode == "local",
        allow_origins=server.allow_origins,
    )


def _rate_limits(limits: ServerLimitSettings) -> RateLimits:
    return RateLimits(
        requests_per_s=_to_limit(limits.requests_per_s),
        burst=limits.burst,
        failures_per_minute=_to_limit(limits.failures_per_minute),
        streams=_to_limit(limits.streams),
        connections=_to_limit(limits.connections),
        connections_per_address=_to_limit(limits.connections_per_address),
        reruns=_to_limit(limits.reruns),
        all_reruns=_to_limit(limits.all_reruns),
        body_s=limits.body_s,
    )


def _to_limit(value: float | NoLimit) -> float:
    return inf if value == "none" else value


def _upload_limits(limits: ServerLimitSettings) -> UploadLimits:
    return UploadLimits(
        max_bytes=limits.max_upload_bytes,
        max_files=limits.max_uploads,
        max_field_bytes=limits.max_body_bytes,
        base_timeout_s=limits.body_s,
    )


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
