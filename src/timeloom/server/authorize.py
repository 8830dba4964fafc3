"""Authorizes requests, WebSockets and Socket.IO connections with the same rules."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal, assert_never

from starlette.requests import Request
from starlette.types import Scope

from timeloom.core.codes import CodedError
from timeloom.core.ids import IdError, conversation_id
from timeloom.server.auth.access_policy import SAFE_METHODS
from timeloom.server.auth.authenticate import EVERY, Act, Caller, address_of
from timeloom.server.services import RequestContext, Services, unknown

Who = Literal["anybody", "known", "operator", "member", "admin", "owner", "reader", "decider"]
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


async def let_in(
    place: Services, who: Who, request: Request, names: Mapping[str, str], operation: str = ""
) -> RequestContext:
    """Return the context of an authorized request; raise otherwise.

    Conversations that the principal may not access are reported as unknown.
    """
    if who == "anybody" or (who == "operator" and place.rules.metrics == "open"):
        return RequestContext(place=place, request=request, operation=operation)
    caller = await recognised(place, request)
    call = RequestContext(
        place=place, request=request, caller=caller, operation=operation, call_id=str(names.get("call_id", ""))
    )
    match who:
        case "known":
            tenant, project = _own_project(place, caller, request)
            return replace(call, tenant=tenant, project=project)
        case "operator":
            return _need(call, caller.is_operator, "only admins of all tenants and projects may do this")
        case "member":
            return _member(call, names)
        case "admin":
            return _need(_member(call, names), caller.role == "admin", "only admins of the project may do this")
        case "owner":
            return await _owner(call, names, "read" if request.method in SAFE_METHODS else "change")
        case "reader":
            return await _owner(call, names, "read")
        case "decider":
            decides = place.rules.approvals == "owner" or caller.role != "user"
            words = "only approvers and admins of the project may decide this"
            call = _need(await _owner(call, names, "decide"), decides, words)
            await call.record(call.conversation.id)
            return call
        case _:
            assert_never(who)


async def recognised(place: Services, request: Request) -> Caller:
    """Return the principal of the request; raise if its token is invalid or a rate limit is exceeded.

    A valid token always passes, even if its address has used up its failed attempts. Otherwise any web page that a
    person opens could lock them out of the server on their machine.
    """
    try:
        caller = await place.doorkeeper.caller(request)
    except CodedError as error:
        if error.code == "unauthorized":
            place.gate.failed(address_of(request))
        raise
    place.gate.passed(caller.id)
    return caller


def handshake(scope: Scope, token: str = "") -> Request:
    """Return the handshake of a two-way connection as a request that can be authorized.

    Its method is `CONNECT`, which is not a safe method, because later messages can change something. Browsers let any
    page open WebSockets to any host, so a page of another origin is rejected as it is for a POST. A token that was
    sent outside the headers replaces the Authorization header.
    """
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if token:
        said = (b"authorization", b"Bearer " + token.encode("utf-8", "surrogatepass"))
        headers = [said, *(one for one in headers if one[0] != b"authorization")]
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    own: dict[str, object] = {"type": "http", "method": "CONNECT", "scheme": scheme, "headers": headers, "state": {}}
    return Request({**scope, **own})


async def let_in_again(call: RequestContext, who: Who = "owner", call_id: str = "") -> RequestContext:
    """Authorize a message on an open connection again: the token or its permissions may have changed since."""
    names = {"tenant": call.tenant, "project": call.project, "call_id": call_id}
    request = Request({**call.request.scope, "state": {}})
    if call.info is None:
        return await let_in(call.place, "member", request, names, call.operation)
    return await let_in(call.place, who, request, {**names, "conversation_id": call.info.id}, call.operation)


def _need(call: RequestContext, may: bool, words: str) -> RequestContext:
    if not may:
        raise CodedError("forbidden", words)
    return call


def _member(call: RequestContext, names: Mapping[str, str]) -> RequestContext:
    tenant, project = names["tenant"], names["project"]
    _need_member(call.caller, tenant, project)
    return replace(call, tenant=tenant, project=project)


async def _owner(call: RequestContext, names: Mapping[str, str], act: Act) -> RequestContext:
    tenant, project, name = names["tenant"], names["project"], names["conversation_id"]
    if not _belongs(call.caller, tenant, project):
        raise unknown(name)
    call = replace(call, tenant=tenant, project=project)
    try:
        return replace(call, info=await call.visible(conversation_id(name), act))
    except IdError:
        raise unknown(name) from None


def _own_project(place: Services, caller: Caller, request: Request) -> tuple[str, str]:
    """Return the tenant and project for routes that name none: from the headers, else the key, else the default."""
    asked = request.headers.get(TENANT_HEADER, ""), request.headers.get(PROJECT_HEADER, "")
    tenant = asked[0] or (place.tenant if caller.tenant == EVERY else caller.tenant)
    project = asked[1] or (place.project if caller.project == EVERY else caller.project)
    _need_member(caller, tenant, project)
    return tenant, project


def _need_member(caller: Caller, tenant: str, project: str) -> None:
    for kind, name in (("tenant", tenant), ("project", project)):
        if not _NAME.fullmatch(name):
            words = f"a {kind} must have 1 to 64 letters, digits, '_', '.' or '-' and begin with a letter or digit"
            raise CodedError("request_malformed", f"{words}, got {name[:80]!r}")
    if not caller.is_member(tenant, project):
        raise CodedError("forbidden", "the token does not belong to this project")


def _belongs(caller: Caller, tenant: str, project: str) -> bool:
    return bool(_NAME.fullmatch(tenant) and _NAME.fullmatch(project)) and caller.is_member(tenant, project)
