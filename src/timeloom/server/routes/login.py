"""Signs a browser in and out: its token moves into a cookie that scripts cannot read."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from timeloom.core.codes import CodedError
from timeloom.server.auth.authenticate import (
    MAX_TOKEN_CHARS,
    TokenError,
    client_address,
    cookie_name,
    is_native_form,
    is_same_origin,
    request_token,
)
from timeloom.server.auth.principal import Principal
from timeloom.server.request_context import RequestContext, mounted_path
from timeloom.server.services import Services

TOKEN_PARAMETER: Final = "token"
PAGE: Final = "/"
REFUSED_PAGE: Final = "/#refused"
"""Where a browser is sent whose token was refused; the page then says so."""

TRUSTED_SITES: Final = ("none", "same-origin")
"""Values of `Sec-Fetch-Site` for an address that a person opened, and for a link of this server's own page."""

_STYLE: Final = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem;color-scheme:light dark}"
    "button{font:inherit;padding:.4rem 1rem}"
)
_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()

QUESTION_HEADERS: Final = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    # With the default, `no-referrer`, a browser would send `Origin: null` with the form.
    "referrer-policy": "strict-origin",
}


class LoginBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token to sign in with."""

    token: Annotated[str, Meta(min_length=1, max_length=MAX_TOKEN_CHARS)]


async def post_login(context: RequestContext, body: LoginBody) -> Response:
    """Sign in: set the cookie of the token. A form is redirected to the page; JSON gets an empty response."""
    services, request = context.services, context.request
    _check_same_origin(request)
    principal = await _authenticate_token(services, request, body.token)
    services.rate_limiter.count_request(principal.id)
    page = mounted_path(request, PAGE)
    response = RedirectResponse(page, 303) if is_native_form(request) else Response(status_code=204)
    _set_cookie(response, request, body.token)
    return response


async def post_logout(context: RequestContext) -> Response:
    """Sign out: remove the cookie."""
    _check_same_origin(context.request)
    response, request = Response(status_code=204), context.request
    response.delete_cookie(cookie_name(request), httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return response


SIGN_IN_HANDLERS: Final = (post_login, post_logout)
"""The routes that only a server needs which signs people in itself."""


async def log_in_by_address(services: Services, request: Request, token: str) -> Response:
    """Answer `/?token=…`: sign in if a person opened that address, else only remove the token from it.

    Another site could link to this address with a token of its own, and would then read everything that the person
    sends. So a browser that does not report where the request came from is asked first, and so is a browser that is
    signed in as another user.
    """
    site = request.headers.get("sec-fetch-site")
    is_trusted = site is None or site in TRUSTED_SITES
    if not (services.access_policy.is_local and request.method == "GET" and is_trusted):
        return RedirectResponse(_without_token(request), 303)
    try:
        principal = await _authenticate_token(services, request, token)
    except CodedError as error:
        services.metrics.count_error(error.code)
        return RedirectResponse(mounted_path(request, REFUSED_PAGE), 303)
    current = await services.authenticator.find_principal(request_token(request))
    if site is None or (current and current != principal):
        return _ask_first(request, token, principal, current)
    response = RedirectResponse(_without_token(request), 303)
    _set_cookie(response, request, token)
    return response


async def _authenticate_token(services: Services, request: Request, token: str) -> Principal:
    """Return the principal of the token; an invalid one counts as a failed attempt of the client's address."""
    try:
        return await services.authenticator.authenticate_token(token)
    except TokenError:
        services.rate_limiter.count_failure(client_address(request))
        raise


def _check_same_origin(request: Request) -> None:
    if not is_same_origin(request):
        raise CodedError("forbidden", "only pages of this server may sign in and out; send the request from its page")


def _set_cookie(response: Response, request: Request, token: str) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(cookie_name(request), token, httponly=True, samesite="strict", secure=secure)


def _without_token(request: Request) -> str:
    """Return the address without the token, which histories and logs would keep."""
    rest = [(key, value) for key, value in request.query_params.multi_items() if key != TOKEN_PARAMETER]
    return f"{mounted_path(request, PAGE)}{f'?{urlencode(rest)}' if rest else ''}"


def _ask_first(request: Request, token: str, principal: Principal, current: Principal | None) -> Response:
    """Return a page that names both users and signs in only if the person agrees."""
    login, page = (escape(mounted_path(request, path)) for path in ("/login", PAGE))
    new, old = _describe(principal), _describe(current) if current else ""
    question = f"<p>You are signed in as {old}.</p>" if old and old != new else ""
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Sign in to timeloom</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style><h1>Sign in?</h1>{question}'
        f"<p>This address signs you in as {new}. Everything that you send then belongs to that user.</p>"
        f'<form method="post" action="{login}"><input type="hidden" name="token" value="{escape(token)}">'
        f'<button>Sign in as {escape(principal.user)}</button></form><p><a href="{page}">Cancel</a></p>'
    )
    return HTMLResponse(html, headers=QUESTION_HEADERS)


def _describe(principal: Principal) -> str:
    place = f"{principal.role} of {principal.tenant}/{principal.project}"
    return f"<strong>{escape(principal.user)}</strong> ({escape(place)})"
