"""Opens the authentication of the server modes `local`, `tokens` and `oidc`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, assert_never

from timeloom.config.catalogue import describe_how_to_set
from timeloom.config.errors import ServerConfigError
from timeloom.config.sections.server import OidcSettings, ServerSettings
from timeloom.platform.account import current_user
from timeloom.platform.secrets import resolve_key
from timeloom.ports.ids import RandomIds
from timeloom.server.auth.access_policy import is_loopback
from timeloom.server.auth.api_key_file import ApiKeyFile
from timeloom.server.auth.api_keys import local_key, new_token
from timeloom.server.auth.authenticate import Authenticator, TokenVerifier

MIN_TOKEN_CHARS: Final = 16
"""Minimum length of a chosen token; a shorter one could be guessed."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """The authenticator of a server, and the token of the mode `local`."""

    authenticator: Authenticator
    token: str = ""
    """The token that the mode `local` accepts; empty in the other modes, whose clients have tokens already."""


@asynccontextmanager
async def open_access(server: ServerSettings) -> AsyncGenerator[ServerAccess]:
    """Open the authentication of the server's mode; raises `ServerConfigError` if its settings do not suffice."""
    match server.mode:
        case "local":
            yield _local_access(server)
        case "tokens":
            if server.tokens_file is None:
                raise ServerConfigError(f"mode tokens needs --tokens-file: {describe_how_to_set('server.tokens_file')}")
            yield ServerAccess(Authenticator((), ApiKeyFile(server.tokens_file)))
        case "oidc":
            files = (ApiKeyFile(server.tokens_file),) if server.tokens_file else ()
            async with _open_issuer(server.oidc) as issuer:
                yield ServerAccess(Authenticator((), *files, issuer))
        case _:
            assert_never(server.mode)


def _local_access(server: ServerSettings) -> ServerAccess:
    if not is_loopback(server.host):
        raise ServerConfigError(
            f"{server.host} is not a loopback address; mode local needs one, other addresses need --mode tokens or oidc"
        )
    named = resolve_key(server.token)
    if named and len(named) < MIN_TOKEN_CHARS:
        raise ServerConfigError(f"TIMELOOM_SERVER_TOKEN needs at least {MIN_TOKEN_CHARS} characters")
    token = named or new_token(RandomIds())
    return ServerAccess(Authenticator((local_key(token, current_user()),)), token)


@asynccontextmanager
async def _open_issuer(oidc: OidcSettings) -> AsyncGenerator[TokenVerifier]:
    try:
        from timeloom.server.auth.oidc import ClaimMapping, TokenRequirements, open_issuer  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ServerConfigError(f"mode oidc needs `pip install 'timeloom[oidc]'`: {error}") from error

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
