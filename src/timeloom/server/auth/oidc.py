"""Verifies JWTs of an OpenID Connect issuer and maps their claims to a principal."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Annotated, Any, Final, cast

import httpx2
import jwt
import msgspec
from jwt import PyJWK
from msgspec import Meta

from timeloom.core.codes import CodedError
from timeloom.platform.user_names import REQUIREMENT, is_user_name
from timeloom.server.auth.access_policy import is_loopback
from timeloom.server.auth.authenticate import TokenError
from timeloom.server.auth.principal import WILDCARD, Principal, Role, ScopeName
from timeloom.server.rate_limit import MONOTONIC_CLOCK, TokenBuckets

MAX_DOCUMENT_BYTES: Final = 512 * 1024
"""Largest document that is read from an issuer; those of the large issuers have about 20 KB."""

MAX_KEYS: Final = 100

KEYS_FRESH_S: Final = 600.0
"""Seconds after which the keys are fetched again. A key that its issuer revoked stays valid for so long."""

KEYS_USABLE_S: Final = 86_400.0
"""Seconds for which fetched keys are used while the issuer cannot be reached."""

REFRESHES_PER_S: Final = 1 / 10
REFRESH_BURST: Final = 3.0
"""Limits on fetching the keys again because a token names an unknown key, which any client can send."""

ALGORITHMS_BY_KEY_TYPE: Final = MappingProxyType[str, tuple[str, ...]](
    {
        "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        "EC": ("ES256", "ES384", "ES512"),
        "OKP": ("EdDSA",),
    }
)
"""The signature algorithms of each key type; shared secrets are not supported."""

ConcreteName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]

_logger = logging.getLogger(__name__)


class ClaimMapping(msgspec.Struct, frozen=True, kw_only=True):
    """The claims that a principal is read from; a fixed `tenant` or `project` applies to all users."""

    user: str = "sub"
    tenant_claim: str = "tenant"
    project_claim: str = "project"
    role_claim: str = "roles"
    tenant: str = ""
    project: str = ""
    admin_role: str = "timeloom-admin"
    approver_role: str = "timeloom-approver"

    def to_principal(self, claims: Mapping[str, object]) -> Principal:
        """Return the principal of a verified token; raise if a claim is missing or malformed."""
        return Principal(
            user=_read_user(claims, self.user),
            tenant=self._read_scope(claims, self.tenant, self.tenant_claim),
            project=self._read_scope(claims, self.project, self.project_claim),
            role=self._read_role(_find_claim(claims, self.role_claim)),
        )

    def _read_scope(self, claims: Mapping[str, object], fixed: str, claim: str) -> str:
        # Only the operator may grant the wildcard, so a claim must be a concrete name.
        return msgspec.convert(fixed, ScopeName) if fixed else _read_name(claims, claim)

    def _read_role(self, claim: object) -> Role:
        roles = cast("list[object]", claim) if isinstance(claim, list) else [claim]
        if self.admin_role and self.admin_role in roles:
            return "admin"
        return "approver" if self.approver_role and self.approver_role in roles else "user"


class TokenRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements that a token must meet."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    leeway_s: float = 30.0
    claims: ClaimMapping = ClaimMapping()


class _Discovery(msgspec.Struct, frozen=True):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct, frozen=True):
    keys: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MAX_KEYS)]


@dataclass(frozen=True, slots=True)
class _PublicKey:
    kid: object
    key: PyJWK
    algorithms: tuple[str, ...]


class OidcIssuer:
    """Verifies the tokens of one issuer; use it as a context manager."""

    def __init__(self, requirements: TokenRequirements, uptime: Callable[[], float] = MONOTONIC_CLOCK) -> None:
        self._requirements = requirements
        self._keys = _IssuerKeys(requirements.issuer, uptime)

    async def __aenter__(self) -> "OidcIssuer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._keys.close()

    async def find_principal(self, token: str) -> Principal | None:
        """Return the principal of the token; None if it is not a JWT. Raise TokenError if it is not valid here."""
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            return None
        key = await self._keys.find_key(header.get("kid"))
        if not key:
            issuer = self._requirements.issuer
            raise TokenError(f"the token is not signed with a key of {issuer}, or that issuer cannot be reached")
        return self._verify(token, key)

    def _verify(self, token: str, public_key: _PublicKey) -> Principal:
        requirements = self._requirements
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                public_key.key.key,
                algorithms=[name for name in public_key.algorithms if name in requirements.algorithms],
                audience=requirements.audience,
                issuer=requirements.issuer,
                leeway=requirements.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.InvalidTokenError, jwt.InvalidKeyError, TypeError, ValueError) as error:
            _logger.info("a token was rejected", extra={"fields": {"why": type(error).__name__}})
            raise TokenError(_explain_token_error(error, requirements)) from error
        return requirements.claims.to_principal(claims)


class _IssuerKeys:
    """The public keys of an issuer, fetched again when they are old or a token names an unknown key."""

    def __init__(self, issuer: str, uptime: Callable[[], float]) -> None:
        self._issuer = issuer
        self._uptime = uptime
        self._http = httpx2.AsyncClient(timeout=5.0, follow_redirects=False, trust_env=False)
        self._lock = asyncio.Lock()
        self._refresh_limit = TokenBuckets(REFRESHES_PER_S, REFRESH_BURST, uptime)
        self._keys: tuple[_PublicKey, ...] = ()
        self._refreshed_s = -inf
        self._refresh_count = 0

    async def close(self) -> None:
        await self._http.aclose()

    async def find_key(self, kid: object) -> _PublicKey | None:
        """Return the key of that id; without an id, the key if there is only one."""
        refresh_count = self._refresh_count
        async with self._lock:
            key = self._find_key(kid)
            is_fresh = self._uptime() - self._refreshed_s < KEYS_FRESH_S
            # If another task fetched the keys while this one waited for the lock, they are newer than this call.
            if (key and is_fresh) or self._refresh_count != refresh_count or self._refresh_limit.take_token(""):
                return key
            self._refresh_count += 1
            await self._refresh()
            return self._find_key(kid)

    def _find_key(self, kid: object) -> _PublicKey | None:
        if self._uptime() - self._refreshed_s >= KEYS_USABLE_S:
            return None
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == kid), None)

    async def _refresh(self) -> None:
        try:
            base = self._issuer.rstrip("/")
            discovery = msgspec.json.decode(
                await self._fetch(f"{base}/.well-known/openid-configuration"), type=_Discovery
            )
            if discovery.issuer != self._issuer:
                raise ValueError("the discovery document names another issuer")
            key_set = msgspec.json.decode(await self._fetch(discovery.jwks_uri), type=_KeySet)
        except (httpx2.HTTPError, msgspec.MsgspecError, TimeoutError, ValueError) as error:
            _logger.warning("the keys of the issuer cannot be fetched", exc_info=error)
            return
        self._keys = tuple(key for data in key_set.keys if (key := _parse_public_key(data)))
        self._refreshed_s = self._uptime()

    async def _fetch(self, url: str) -> bytes:
        parts = httpx2.URL(url)
        if parts.scheme != "https" and not is_loopback(parts.host):
            raise ValueError("the issuer must be fetched over https")
        body = bytearray()
        async with asyncio.timeout(10.0), self._http.stream("GET", url) as response:
            response.raise_for_status()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise ValueError("the document is too large")
        return bytes(body)


def open_issuer(requirements: TokenRequirements) -> OidcIssuer:
    """Return the issuer for these requirements; raise if the settings are incomplete or invalid."""
    if not requirements.issuer or not requirements.audience:
        raise CodedError("setting_invalid", "the mode `oidc` needs `server.oidc.issuer` and `server.oidc.audience`")
    url = httpx2.URL(requirements.issuer)
    if url.scheme != "https" and not is_loopback(url.host):
        raise CodedError("setting_invalid", "`server.oidc.issuer` must begin with https://")
    for name in (requirements.claims.tenant, requirements.claims.project):
        if name and name != WILDCARD:
            msgspec.convert(name, ConcreteName)
    return OidcIssuer(requirements)


def _parse_public_key(data: dict[str, Any]) -> _PublicKey | None:
    """Return a key that verifies signatures; None if it is of another kind or not supported."""
    algorithm = data.get("alg")
    algorithms = tuple(
        name for name in ALGORITHMS_BY_KEY_TYPE.get(str(data.get("kty")), ()) if algorithm in (None, name)
    )
    if not algorithms or data.get("use", "sig") != "sig":
        return None
    try:
        return _PublicKey(data.get("kid"), PyJWK(data), algorithms)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None


def _explain_token_error(error: Exception, requirements: TokenRequirements) -> str:
    """Explain why a token is not valid.

    Claims are checked after the signature, so only holders of a token of the issuer learn about them.
    """
    match error:
        case jwt.ExpiredSignatureError():
            return "the token has expired; get a new one from its issuer"
        case jwt.ImmatureSignatureError():
            return "the token is not valid yet"
        case jwt.InvalidAudienceError():
            return f"the token is for another audience; its `aud` must contain {requirements.audience}"
        case jwt.InvalidIssuerError():
            return f"the token has another issuer; its `iss` must be {requirements.issuer}"
        case jwt.MissingRequiredClaimError():
            return f"the token has no claim `{error.claim}`"
        case jwt.InvalidAlgorithmError():
            return "the token's signature algorithm is not accepted; `server.oidc.algorithms` lists those that are"
        case _:
            return "the token's signature or format is invalid"


def _read_user(claims: Mapping[str, object], claim: str) -> str:
    value = _require_claim(claims, claim)
    if not isinstance(value, str) or not is_user_name(value):
        raise TokenError(f"the token's claim `{claim}` must have {REQUIREMENT}")
    return value


def _read_name(claims: Mapping[str, object], claim: str) -> str:
    try:
        return msgspec.convert(_require_claim(claims, claim), ConcreteName)
    except msgspec.ValidationError as error:
        requirement = "1 to 64 letters, digits, '_', '.' or '-'"
        raise TokenError(f"the token's claim `{claim}` must have {requirement}") from error


def _require_claim(claims: Mapping[str, object], claim: str) -> object:
    value = _find_claim(claims, claim)
    if value is None:
        raise TokenError(f"the token has no claim `{claim}`")
    return value


def _find_claim(claims: Mapping[str, object], claim: str) -> object:
    """Return the claim of that name; otherwise follow its dots into nested objects."""
    if claim in claims:
        return claims[claim]
    first, _, rest = claim.partition(".")
    nested = claims.get(first)
    return _find_claim(cast("Mapping[str, object]", nested), rest) if rest and isinstance(nested, Mapping) else None
