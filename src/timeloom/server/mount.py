"""Makes an ASGI application of an agent, to mount in Starlette or FastAPI below any prefix."""

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from timeloom.agent.agent import PROJECT, TENANT, Agent
from timeloom.agent.hosting import OpenAgent
from timeloom.config.sections.server import ServerSettings
from timeloom.core.codes import CodedError
from timeloom.platform.secrets import resolve_key
from timeloom.server.app import AppOptions, build_app
from timeloom.server.auth.app_authenticator import AppAuthenticator, Authenticate
from timeloom.server.auth.authenticate import Authenticator
from timeloom.server.auth.modes import open_access
from timeloom.server.bootstrap import ServerParts, open_rerun_models, open_telemetry, serve_hub
from timeloom.server.http.problem_json import error_response

RECHECK_S: Final = 10.0
"""Seconds between two calls of `authenticate` for an open stream. A larger value keeps the streams of people who signed
out open for longer; a smaller one asks the application's store more often."""


def create_app(
    agent: Agent[Any], *, authenticate: Authenticate | None = None, page: bool = True, recheck_s: float = RECHECK_S
) -> ASGIApp:
    """Return the application that serves the agent: the API, the streams and, unless `page` is false, the web page.

    Mount it at any prefix and open the agent with the outer application: `Starlette(lifespan=agent.lifespan, routes=[
    Mount("/agent", create_app(agent, authenticate=find_user))])`. It can also be served alone. `authenticate` returns
    a `Principal`, the name of a user, or None, and may be async; open streams are checked again every `recheck_s`.
    Without it, requests need a token or key as the server settings say, or `authenticate_missing` is raised.
    """
    if authenticate is None:
        _check_settings(agent.settings.server)
    options = AppOptions(page=page, sign_in=authenticate is None)
    return _MountedAgent(agent, authenticate, options, recheck_s)


def _check_settings(server: ServerSettings) -> None:
    """Raise if the settings do not say who may send requests: a random token would reach nobody."""
    if server.mode == "local" and not resolve_key(server.token):
        raise CodedError(
            "authenticate_missing",
            "pass authenticate=, or set server.mode to tokens or oidc, or server.token for yourself",
        )


class _MountedAgent:
    """The application of one agent; it answers requests while the agent is open."""

    def __init__(
        self, agent: Agent[Any], authenticate: Authenticate | None, options: AppOptions, recheck_s: float
    ) -> None:
        self._authenticate = authenticate
        self._options = options
        self._recheck_s = recheck_s
        self._app: ASGIApp | None = None
        # The events of an ASGI server reach it only if it is served alone, and not mounted.
        self._alone = Starlette(lifespan=agent.lifespan)
        agent.host(self._serve)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._alone(scope, receive, send)
        elif self._app:
            await self._app(scope, receive, send)
        else:
            message = "the agent is closed; pass lifespan=agent.lifespan to the application that mounts it"
            response = error_response(CodedError("agent_closed", message), scope["path"])
            if scope["type"] == "websocket":
                await WebSocket(scope, receive, send).send_denial_response(response)
            else:
                await response(scope, receive, send)

    @asynccontextmanager
    async def _serve(self, agent: OpenAgent) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            make_entry_listener = await stack.enter_async_context(open_telemetry(agent.settings))
            parts = ServerParts.from_settings(
                agent.settings,
                store=agent.store,
                model=agent.model,
                side_models=agent.side_models,
                rerun_models=open_rerun_models(agent.models, agent.settings.server),
                tools=agent.tools,
                agent_settings=agent.agent_settings,
                authenticator=await self._open_authenticator(stack, agent.settings.server),
                make_entry_listener=make_entry_listener,
                bundles=agent.factory.bundles,
            )
            if self._authenticate:
                # The application decides who reaches it, so the rules of the mode `local` do not apply.
                policy = msgspec.structs.replace(parts.access_policy, is_local=False)
                parts = dataclasses.replace(parts, access_policy=policy, revocation_interval_s=self._recheck_s)
            services = await stack.enter_async_context(serve_hub(agent.hub, agent.factory, parts))
            self._app = build_app(services, self._options)
            try:
                yield
            finally:
                self._app = None
                agent.hub.stop_accepting()

    async def _open_authenticator(self, stack: AsyncExitStack, server: ServerSettings) -> Authenticator:
        if self._authenticate:
            return AppAuthenticator(self._authenticate, tenant=TENANT, project=PROJECT)
        return (await stack.enter_async_context(open_access(server))).authenticator
