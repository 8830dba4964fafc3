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

from timeloom.app import Setting, open_tools
from timeloom.cli.chat.conversations import OpenModels
from timeloom.config.catalogue import ways_to_say
from timeloom.config.sections.governance import NoLimit
from timeloom.config.sections.server import LimitSettings, OidcSettings, ServerSettings
from timeloom.config.settings import Settings
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.runtime.hub.hub import Hub, HubSettings
from timeloom.server.auth.access_policy import Rules, is_loopback
from timeloom.server.auth.api_keys import KeyFile
from timeloom.server.auth.audit_log import AuditTrail
from timeloom.server.auth.authenticate import Doorkeeper, Register, local_key, new_token
from timeloom.server.auth.revocation import Watch
from timeloom.server.conversation_factory import ServerOpening
from timeloom.server.http.uploads import UploadLimits
from timeloom.server.observability.logs import log_to_stderr
from timeloom.server.observability.metrics import Metrics
from timeloom.server.rate_limit import Gate, Limits
from timeloom.server.rerun_jobs import Reruns
from timeloom.server.serve import Serving, listen
from timeloom.server.services import Services
from timeloom.stores.sqlite import SqliteStore

LEAST_TOKEN_CHARS: Final = 16
"""Minimum length of a chosen token; a shorter one could be guessed."""


GARBAGE: Final = (10_000, 20, 20)
"""Thresholds of Python's garbage collector for its three generations.

Smaller values pause all streams more often, for 100 ms with hundreds of streams. Larger values keep closed
conversations in memory for longer."""


@dataclass(frozen=True, slots=True)
class _Entrance:
    doorkeeper: Doorkeeper
    token: str = ""
    """The token that is printed at the start; empty where clients have their keys already."""


async def run_server(settings: Settings) -> int:
    """Serve until a signal arrives, and return the exit code of the command."""
    server = settings.server
    async with AsyncExitStack() as stack:
        entrance = await _entrance(server, stack)
        try:
            listener = stack.enter_context(listen(server.host, server.port))
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on port {server.port} of {server.host}: {error.strerror}; choose another with --port"
            ) from error
        log_to_stderr()
        place = await stack.enter_async_context(_open_place(settings, entrance.doorkeeper))
        serving = Serving(place, proxies=server.proxies)
        serving.leave_at_signals()
        _set_up_memory()
        place.hub.recover()
        click.echo(f"serving on {_address(listener)}")
        if entrance.token:
            click.echo(f"token: {entrance.token}")
        entry = f"?token={quote(entrance.token)}" if entrance.token else ""
        click.echo(f"page: {_address(listener)}/{entry}")
        await serving.serve(listener)
    return 0


def _set_up_memory() -> None:
    """Exclude the objects that exist now from garbage collection, because they live as long as the server."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


async def _entrance(server: ServerSettings, stack: AsyncExitStack) -> _Entrance:
    """Return the authenticator of the server mode, and the token to print."""
    match server.mode:
        case "local":
            if not is_loopback(server.host):
                raise click.UsageError(
                    f"{server.host} is not a loopback address, which mode local needs; use --mode tokens or oidc"
                )
            if server.token and len(server.token) < LEAST_TOKEN_CHARS:
                raise click.UsageError(f"TIMELOOM_SERVER_TOKEN needs at least {LEAST_TOKEN_CHARS} characters")
            token = server.token or new_token(RandomIds())
            return _Entrance(Doorkeeper((local_key(token, _user()),)), token)
        case "tokens":
            if server.tokens_file is None:
                raise click.UsageError(f"mode tokens needs --tokens-file: {ways_to_say('server.tokens_file')}")
            return _Entrance(Doorkeeper((), KeyFile(server.tokens_file)))
        case "oidc":
            files = (KeyFile(server.tokens_file),) if server.tokens_file else ()
            return _Entrance(Doorkeeper((), *files, await stack.enter_async_context(_issuer(server.oidc))))
        case _:
            assert_never(server.mode)


@asynccontextmanager
async def _issuer(said: OidcSettings) -> AsyncGenerator[Register]:
    try:
        from timeloom.server.auth.oidc import Claims, Expected, open_issuer  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise click.UsageError(f"mode oidc needs `pip install 'timeloom[oidc]'`: {error}") from error

    claims = Claims(
        user=said.user_claim,
        tenant_claim=said.tenant_claim,
        project_claim=said.project_claim,
        role_claim=said.role_claim,
        tenant=said.tenant,
        project=said.project,
        admin_role=said.admin_role,
        approver_role=said.approver_role,
    )
    expected = Expected(
        issuer=said.issuer,
        audience=said.audience,
        algorithms=said.algorithms,
        leeway_s=said.leeway_s,
        claims=claims,
    )
    async with open_issuer(expected) as issuer:
        yield issuer


@asynccontextmanager
async def _open_place(settings: Settings, doorkeeper: Doorkeeper) -> AsyncGenerator[Services]:
    server = settings.server
    clock, ids, setting, metrics = SystemClock(), RandomIds(), Setting.of(settings), Metrics()
    hub_settings = HubSettings(
        rest_s=server.rest_s, grace_s=server.grace_s, reader_bytes=server.reader_bytes, beat_s=server.heartbeat_s
    )
    async with OpenModels(settings) as models, open_tools(settings) as tools, _telemetry(settings) as listening:
        # Before the folder is created, so that an unknown model name leaves no files behind.
        model, side = models.get(settings.model), models.beside(settings.model)
        choice = [(models.get(name), models.beside(name).summary) for name in (settings.model, *server.models)]
        async with await SqliteStore.open(settings.data_dir) as store:
            opening = ServerOpening(
                store=store,
                model=model,
                setting=setting,
                clock=clock,
                ids=ids,
                tools=tools,
                side=side,
                observer=metrics,
                listening=listening,
            )
            opening.prepare()
            again = {one.name: opening.again(one, summary) for one, summary in choice}
            async with (
                Hub(store, opening, clock, ids, hub_settings) as hub,
                Reruns(opening, again, server.grace_s, _limits(server.limits)) as reruns,
            ):
                metrics.watch(hub)
                yield Services(
                    store=store,
                    hub=hub,
                    reruns=reruns,
                    doorkeeper=doorkeeper,
                    watch=Watch(doorkeeper),
                    audit=AuditTrail(settings.data_dir / "audit"),
                    workspaces=setting.workspaces,
                    clock=clock,
                    ids=ids,
                    max_body_bytes=server.limits.max_body_bytes,
                    uploads=_uploads(server.limits),
                    rules=_rules(server),
                    gate=Gate(_limits(server.limits)),
                    metrics=metrics,
                )


@asynccontextmanager
async def _telemetry(settings: Settings) -> AsyncGenerator[Callable[[ConversationId], Callable[[Entry], None]] | None]:
    said = settings.telemetry
    if not said.endpoint:
        yield None
        return
    try:
        from timeloom.server.observability.telemetry import open_telemetry  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise click.UsageError(f"telemetry needs `pip install 'timeloom[telemetry]'`: {error}") from error

    async with open_telemetry(said.endpoint, content=said.content) as telemetry:
        yield telemetry.of


def _uploads(limits: LimitSettings) -> UploadLimits:
    return UploadLimits(
        max_bytes=limits.max_upload_bytes,
        max_files=limits.max_uploads,
        max_field_bytes=limits.max_body_bytes,
        patience_s=limits.body_s,
    )


def _rules(server: ServerSettings) -> Rules:
    return Rules(
        approvals=server.approvals,
        metrics=server.metrics,
        hosts=tuple(name.lower() for name in server.hosts),
        is_local=server.mode == "local",
        allow_origins=server.allow_origins,
    )


def _limits(said: LimitSettings) -> Limits:
    return Limits(
        requests_per_s=_limit(said.requests_per_s),
        burst=said.burst,
        failures_per_minute=_limit(said.failures_per_minute),
        streams=_limit(said.streams),
        reruns=_limit(said.reruns),
        all_reruns=_limit(said.all_reruns),
        body_s=said.body_s,
    )


def _limit(said: float | NoLimit) -> float:
    return inf if said == "none" else said


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
