"""Builds the server's services from the settings and serves until a signal ends the command."""

import gc
import getpass
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import Final, assert_never
from urllib.parse import quote

import click

from timeloom.app import AgentSettings, open_tools
from timeloom.cli.chat.conversations import ModelPool
from timeloom.config.catalogue import describe_how_to_set
from timeloom.config.sections.governance import NoLimit
from timeloom.config.sections.server import OidcSettings, ServerLimitSettings, ServerSettings
from timeloom.config.settings import Settings
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.hub.hub import Hub, HubSettings
from timeloom.server.auth.access_policy import AccessPolicy, is_loopback
from timeloom.server.auth.api_keys import ApiKeyFile
from timeloom.server.auth.audit_log import AuditLog
from timeloom.server.auth.authenticate import Authenticator, TokenVerifier, local_key, new_token
from timeloom.server.auth.revocation import RevocationMonitor
from timeloom.server.conversation_factory import ConversationFactory
from timeloom.server.http.uploads import UploadLimits
from timeloom.server.observability.logs import log_to_stderr
from timeloom.server.observability.metrics import Metrics
from timeloom.server.rate_limit import RateLimiter, RateLimits
from timeloom.server.rerun_jobs import RerunJobs
from timeloom.server.serve import HttpServer, listen
from timeloom.server.services import Services
from timeloom.stores.sqlite import SqliteStore

MIN_TOKEN_CHARS: Final = 16
"""Minimum length of a chosen token; a shorter one could be guessed."""


GC_THRESHOLDS: Final = (10_000, 20, 20)
"""Thresholds of Python's garbage collector for its three generations.

Smaller values pause all streams more often, for 100 ms with hundreds of streams. Larger values keep closed
conversations in memory for longer."""


@dataclass(frozen=True, slots=True)
class _Access:
    authenticator: Authenticator
    token: str = ""
    """The token that is printed at the start; empty where clients have their keys already."""


async def run_server(settings: Settings) -> int:
    """Serve until a signal arrives, and return the exit code of the command."""
    server = settings.server
    async with AsyncExitStack() as stack:
        access = await _open_access(server, stack)
        try:
            listener = stack.enter_context(listen(server.host, server.port))
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on port {server.port} of {server.host}: {error.strerror}; choose another with --port"
            ) from error
        log_to_stderr()
        services = await stack.enter_async_context(_open_services(settings, access.authenticator))
        serving = HttpServer(services, proxies=server.proxies)
        serving.shut_down_on_signals()
        _tune_garbage_collection()
        services.hub.resume_open_turns()
        click.echo(f"serving on {_address(listener)}")
        if access.token:
            click.echo(f"token: {access.token}")
        query = f"?token={quote(access.token)}" if access.token else ""
        click.echo(f"page: {_address(listener)}/{query}")
        await serving.serve(listener)
    return 0


def _tune_garbage_collection() -> None:
    """Exclude the objects that exist now from garbage collection, because they live as long as the server."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def _open_access(server: ServerSettings, stack: AsyncExitStack) -> _Access:
    """Return the authenticator of the server mode, and the token to print."""
    match server.mode:
        case "local":
            if not is_loopback(server.host):
                raise click.UsageError(
                    f"{server.host} is not a loopback address, which mode local needs; use --mode tokens or oidc"
                )
            if server.token and len(server.token) < MIN_TOKEN_CHARS:
                raise click.UsageError(f"TIMELOOM_SERVER_TOKEN needs at least {MIN_TOKEN_CHARS} characters")
            token = server.token or new_token(RandomIds())
            return _Access(Authenticator((local_key(token, _current_user()),)), token)
        case "tokens":
            if server.tokens_file is None:
                raise click.UsageError(f"mode tokens needs --tokens-file: {describe_how_to_set('server.tokens_file')}")
            return _Access(Authenticator((), ApiKeyFile(server.tokens_file)))
        case "oidc":
            files = (ApiKeyFile(server.tokens_file),) if server.tokens_file else ()
            return _Access(Authenticator((), *files, await stack.enter_async_context(_open_issuer(server.oidc))))
        case _:
            assert_never(server.mode)


@asynccontextmanager
async def _open_issuer(oidc: OidcSettings) -> AsyncGenerator[TokenVerifier]:
    try:
        from timeloom.server.auth.oidc import ClaimMapping, TokenRequirements, open_issuer  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise click.UsageError(f"mode oidc needs `pip install 'timeloom[oidc]'`: {error}") from error

    claims = ClaimMapping(
        user=oidc.user_claim,
        tenant_claim=oidc.tenant_claim,
        project_claim=oidc.project_claim,
        role_claim=oidc.role_claim,
        tenant=oidc.tenant,
        project=oidc.project,
        admin_role=oidc.admin_role,
        approver_role=oidc.approver_role,
    )
    expected = TokenRequirements(
        issuer=oidc.issuer,
        audience=oidc.audience,
        algorithms=oidc.algorithms,
        leeway_s=oidc.leeway_s,
        claims=claims,
    )
    async with open_issuer(expected) as issuer:
        yield issuer


@asynccontextmanager
async def _open_services(settings: Settings, authenticator: Authenticator) -> AsyncGenerator[Services]:
    server = settings.server
    clock, ids, setting, metrics = SystemClock(), RandomIds(), AgentSettings.from_settings(settings), Metrics()
    hub_settings = HubSettings(
        rest_s=server.rest_s, grace_s=server.grace_s, reader_bytes=server.reader_bytes, beat_s=server.heartbeat_s
    )
    async with ModelPool(settings) as models, open_tools(settings) as tools, _open_telemetry(settings) as listening:
        # Before the folder is created, so that an unknown model name leaves no files behind.
        model, side = models.get(settings.model), models.get_side_models(settings.model)
        choice = [(models.get(name), models.get_side_models(name).summary) for name in (settings.model, *server.models)]
        async with await SqliteStore.open(settings.data_dir) as store:
            factory = ConversationFactory(
                store=store,
                model=model,
                setting=setting,
                clock=clock,
                ids=ids,
                tools=tools,
                side=side,
                observer=metrics,
                make_entry_listener=listening,
            )
            factory.prepare()
            rerun_factories = {one.name: factory.rerun_opener(one, summary) for one, summary in choice}
            async with (
                Hub(store, factory, clock, ids, hub_settings) as hub,
                RerunJobs(factory, rerun_factories, server.grace_s, _rate_limits(server.limits)) as reruns,
            ):
                metrics.export_live_counts(hub)
                yield Services(
                    store=store,
                    hub=hub,
                    reruns=reruns,
                    authenticator=authenticator,
                    revocation_monitor=RevocationMonitor(authenticator),
                    audit_log=AuditLog(settings.data_dir / "audit"),
                    workspaces=setting.workspaces,
                    clock=clock,
                    ids=ids,
                    max_body_bytes=server.limits.max_body_bytes,
                    uploads=_upload_limits(server.limits),
                    access_policy=_rules(server),
                    rate_limiter=RateLimiter(_rate_limits(server.limits)),
                    metrics=metrics,
                )


@asynccontextmanager
async def _open_telemetry(
    settings: Settings,
) -> AsyncGenerator[Callable[[ConversationId], Callable[[Entry], None]] | None]:
    options = settings.telemetry
    if not options.endpoint:
        yield None
        return
    try:
        from timeloom.server.observability.telemetry import open_telemetry  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise click.UsageError(f"telemetry needs `pip install 'timeloom[telemetry]'`: {error}") from error

    async with open_telemetry(options.endpoint, content=options.content) as telemetry:
        yield telemetry.listener_for


def _upload_limits(limits: ServerLimitSettings) -> UploadLimits:
    return UploadLimits(
        max_bytes=limits.max_upload_bytes,
        max_files=limits.max_uploads,
        max_field_bytes=limits.max_body_bytes,
        base_timeout_s=limits.body_s,
    )


def _rules(server: ServerSettings) -> AccessPolicy:
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
        reruns=_to_limit(limits.reruns),
        all_reruns=_to_limit(limits.all_reruns),
        body_s=limits.body_s,
    )


def _to_limit(value: float | NoLimit) -> float:
    return inf if value == "none" else value


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _current_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
