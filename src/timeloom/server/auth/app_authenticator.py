"""Authenticates requests with a function of the application that an agent is mounted in."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import cast

import msgspec
from starlette.requests import HTTPConnection, Request
from typing_extensions import override

from timeloom.core.codes import CodedError
from timeloom.server.auth.authenticate import Authenticator, bearer_token, is_cross_origin
from timeloom.server.auth.principal import Principal

Caller = Principal | str | None
"""A principal, the name of a user of the default project, or None for a request that is refused."""

Authenticate = Callable[[Request], Caller | Awaitable[Caller]]
"""Returns who sent a request, by its headers, cookies or session; it may be async. A sync one runs in a thread."""


class AppAuthenticator(Authenticator):
    """Authenticates requests with the function; open connections are checked again with the request that began them."""

    signs_in = False

    def __init__(self, authenticate: Authenticate, *, tenant: str, project: str) -> None:
        super().__init__()
        self._authenticate = authenticate
        self._tenant, self._project = tenant, project

    @override
    async def authenticate(self, connection: HTTPConnection) -> Principal:
        """Return the principal that sent the request; raise if the function does not recognize it.

        Browsers add cookies, passwords and certificates to the requests of any page. So an unsafe request of a page of
        another origin is refused before the function is called, unless a script put a bearer token into it.
        """
        if not bearer_token(connection) and is_cross_origin(connection):
            raise CodedError(
                "forbidden",
                "requests from pages of another origin are rejected; a proxy must forward its scheme and host",
            )
        if principal := await self.find_principal(connection):
            return principal
        raise CodedError("sign_in_required", "sign in to the application that this agent belongs to, and try again")

    @override
    def credential(self, connection: HTTPConnection) -> object:
        """Return the connection, from which the function reads its credentials again."""
        return connection

    @override
    async def find_principal(self, credential: object) -> Principal | None:
        """Return the principal of the connection; None if the function does not recognize it."""
        sender = await self._call(cast(Request, credential))
        if sender is None or sender == "":
            return None
        if isinstance(sender, str):
            return Principal(tenant=self._tenant, project=self._project, user=sender)
        if isinstance(sender, Principal):
            # Its fields may come from a claim or a table, and a Struct does not check them when it is made.
            fields = {name: getattr(sender, name) for name in Principal.__struct_fields__}
            return msgspec.convert(fields, Principal)
        raise TypeError(f"authenticate returned a {type(sender).__name__}; expected a Principal, a user's name or None")

    async def _call(self, request: Request) -> object:
        is_async = inspect.iscoroutinefunction(self._authenticate)
        sender = self._authenticate(request) if is_async else await asyncio.to_thread(self._authenticate, request)
        return await sender if inspect.isawaitable(sender) else sender
