"""Authorizes requests, WebSockets and Socket.IO connections with the same rules."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal, assert_never

from starlette.requests import Request
from starlette.types import Scope

from timeloom.core.codes import CodedError
from timeloom.core.ids import IdError, parse_conversation_id
from timeloom.server.auth.access_policy import SAFE_METHODS
from timeloom.server.auth.authenticate import ON_AUTHENTICATED, client_address
from timeloom.server.auth.principal import WILDCARD, ConversationAccess, Principal
from timeloom.server.request_context import RequestContext, unknown_conversation_error
from timeloom.server.services import Services

Permission = Literal["anybody", "known", "operator", "member", "admin", "owner", "reader", "decider"]
"""The permission that an endpoint requires.

- `anybody`: none.
- `known`: a valid token.
- `operator`: an admin of all tenants and projects.
- `member`: a member of the project.
- `admin`: an admin of the project.
- `owner`: the owner of the conversation or an admin of the project; with a safe method also an approver.
- `reader`: those who may read the conversation, with any method.
- `decider`: those who may decide on calls that wait for approval.
"""

TENANT_HEADER: Final = "x-timeloom-tenant"
PROJECT_HEADER: Final = "x-timeloom-project"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


async def authorize(
    services: Services, requires: Permission, request: Request, names: Mapping[str, str], operation: str = ""
) -> RequestContext:
    """Return the context of an authorized request; raise otherwise.

    Conversations that the principal may not read are reported as unknown.
    """
    if requires == "anybody" or (requires == "operator" and services.access_policy.metrics == "open"):
        return RequestContext(services=services, request=request, operation=operation)
    principal = await authenticate(services, request)
    context = RequestContext(
        services=services,
        request=request,
        principal=principal,
        operation=operation,
        call_id=str(names.get("call_id", "")),
    )
    match requires:
        case "known":
            tenant, project = _default_project(services, principal, request)
            return replace(context, tenant=tenant, project=project)
        case "operator":
            return _require(context, principal.is_operator, "only admins of all tenants and projects may do this")
        case "member":
            return _authorize_member(context, names)
        case "admin":
            return _require(
                _authorize_member(context, names), principal.role == "admin", "only admins of the project may do this"
            )
        case "owner":
            return await _authorize_conversation(context, names, "read" if request.method in SAFE_METHODS else "change")
        case "reader":
            return await _authorize_conversation(context, names, "read")
        case "decider":
            is_decider = services.access_policy.may_decide(principal.role)
            detail = "only approvers and admins of the project may decide this"
            context = _require(await _authorize_conversation(context, names, "decide"), is_decider, detail)
            await context.record_request(context.conversation.id)
            return context
        case _:
            assert_never(requires)


async def authenticate(services: Services, request: Request) -> Principal:
    """Return the principal of the request; raise if its token is invalid or a rate limit is exceeded.

    A valid token always passes, even if its address has used up its failed attempts. Otherwise any web page that a
    person opens could lock them out of the server on their machine.
    """
    try:
        principal = await services.authenticator.authenticate(request)
    except CodedError as error:
        if error.code == "unauthorized":
            services.rate_limiter.count_failure(client_address(request))
        raise
    if on_authenticated := request.scope.get(ON_AUTHENTICATED):
        on_authenticated()
    services.rate_limiter.count_request(principal.id)
    return principal


def handshake_request(scope: Scope, token: str = "") -> Request:
    """Return the handshake of a two-way connection as a request that can be authorized.

    Its method is `CONNECT`, which is not a safe method, because later messages can change something. Browsers let any
    page open WebSockets to any host, so a page of another origin is rejected as it is for a POST. A token that was
    sent outside the headers replaces the Authorization header.
    """
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if token:
        authorization = (b"authorization", b"Bearer " + token.encode("utf-8", "surrogatepass"))
        headers = [authorization, *(one for one in headers if one[0] != b"authorization")]
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    overrides: dict[str, object] = {
        "type": "http",
        "method": "CONNECT",
        "scheme": scheme,
        "headers": headers,
        "state": {},
    }
    return Request({**scope, **overrides})


async def reauthorize(context: RequestContext, requires: Permission = "owner", call_id: str = "") -> RequestContext:
    """Authorize a message on an open connection again: the token or its permissions may have changed since."""
    names = {"tenant": context.tenant, "project": context.project, "call_id": call_id}
    request = Request({**context.request.scope, "state": {}})
    if context.info is None:
        return await authorize(context.services, "member", request, names, context.operation)
    return await authorize(
        context.services, requires, request, {**names, "conversation_id": context.info.id}, context.operation
    )


def _require(context: RequestContext, is_allowed: bool, detail: str) -> RequestContext:
    if not is_allowed:
        raise CodedError("forbidden", detail)
    return context


def _authorize_member(context: RequestContext, names: Mapping[str, str]) -> RequestContext:
    tenant, project = names["tenant"], names["project"]
    _require_member(context.principal, tenant, project)
    return replace(context, tenant=tenant, project=project)


async def _authorize_conversation(
    context: RequestContext, names: Mapping[str, str], access: ConversationAccess
) -> RequestContext:
    tenant, project, name = names["tenant"], names["project"], names["conversation_id"]
    if not _is_member(context.principal, tenant, project):
        raise unknown_conversation_error(name)
    context = replace(context, tenant=tenant, project=project)
    try:
        return replace(context, info=await context.require_conversation(parse_conversation_id(name), access))
    except IdError:
        raise unknown_conversation_error(name) from None


def _default_project(services: Services, principal: Principal, request: Request) -> tuple[str, str]:
    """Return the tenant and project for routes that name none: from the headers, else the key, else the default."""
    from_headers = request.headers.get(TENANT_HEADER, ""), request.headers.get(PROJECT_HEADER, "")
    tenant = from_headers[0] or (services.tenant if principal.tenant == WILDCARD else principal.tenant)
    project = from_headers[1] or (services.project if principal.project == WILDCARD else principal.project)
    _require_member(principal, tenant, project)
    return tenant, project


def _require_member(principal: Principal, tenant: str, project: str) -> None:
    for kind, name in (("tenant", tenant), ("project", project)):
        if not _NAME.fullmatch(name):
            requirement = (
                f"a {kind} must have 1 to 64 letters, digits, '_', '.' or '-' and begin with a letter or digit"
            )
            raise CodedError("request_malformed", f"{requirement}, got {name[:80]!r}")
    if not principal.is_member(tenant, project):
        raise CodedError("forbidden", "the token does not belong to this project")


def _is_member(principal: Principal, tenant: str, project: str) -> bool:
    return bool(_NAME.fullmatch(tenant) and _NAME.fullmatch(project)) and principal.is_member(tenant, project)
