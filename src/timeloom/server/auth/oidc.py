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
from timeloom.server.auth.access_policy import is_loopback
from timeloom.server.auth.authenticate import EVERY, Caller, Name, Role, TokenError, User
from timeloom.server.rate_limit import UPTIME, Buckets

MOST_BYTES: Final = 512 * 1024
"""Largest document that is read from an issuer; those of the large issuers have about 20 KB."""

MOST_KEYS: Final = 100

FRESH_S: Final = 600.0
"""Seconds after which the keys are fetched again. A key that its issuer revoked stays valid for so long."""

KEPT_S: Final = 86_400.0
"""Seconds for which fetched keys are used while the issuer cannot be reached."""

LOOKS_PER_S: Final = 1 / 10
LOOKS_AT_ONCE: Final = 3.0
"""Limits on fetching the keys again because a token names an unknown key, which any client can send."""

FAMILIES: Final = MappingProxyType[str, tuple[str, ...]](
    {
        "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        "EC": ("ES256", "ES384", "ES512"),
        "OKP": ("EdDSA",),
    }
)
"""The signature algorithms of each key type; shared secrets are not supported."""

OwnName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]

_logger = logging.getLogger(__name__)


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims that a principal is read from; a fixed `tenant` or `project` applies to all users."""

    user: str = "sub"
    tenant_claim: str = "tenant"
    project_claim: str = "project"
    role_claim: str = "roles"
    tenant: str = ""
    project: str = ""
    admin_role: str = "timeloom-admin"
    approver_role: str = "timeloom-approver"

    def caller(self, said: Mapping[str, object]) -> Caller:
        """Return the principal of a verified token; raise if a claim is missing or malformed."""
        return Caller(
            user=_claimed(said, self.user, User),
            tenant=self._name(said, self.tenant, self.tenant_claim),
            project=self._name(said, self.project, self.project_claim),
            role=self._role(_found(said, self.role_claim)),
        )

    def _name(self, said: Mapping[str, object], fixed: str, claim: str) -> str:
        # Only the operator may grant the wildcard, so a claim must be a concrete name.
        return msgspec.convert(fixed, Name) if fixed else _claimed(said, claim, OwnName)

    def _role(self, said: object) -> Role:
        roles = cast("list[object]", said) if isinstance(said, list) else [said]
        if self.admin_role and self.admin_role in roles:
            return "admin"
        return "approver" if self.approver_role and self.approver_role in roles else "user"


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements that a token must meet."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    leeway_s: float = 30.0
    claims: Claims = Claims()


class _Discovery(msgspec.Struct, frozen=True):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct, frozen=True):
    keys: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MOST_KEYS)]


@dataclass(frozen=True, slots=True)
class _PublicKey:
    kid: object
    key: PyJWK
    algorithms: tuple[str, ...]


class Issuer:
    """Verifies the tokens of one issuer; use it as a context manager."""

    def __init__(self, expected: Expected, uptime: Callable[[], float] = UPTIME) -> None:
        self._expected = expected
        self._keys = _IssuerKeys(expected.issuer, uptime)

    async def __aenter__(self) -> "Issuer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._keys.close()

    async def whose(self, token: str) -> Caller | None:
        """Return the principal of the token; None if it is not a JWT. Raise TokenError if it is not valid here."""
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            return None
        key = await self._keys.get(header.get("kid"))
        if not key:
            issuer = self._expected.issuer
            raise TokenError(f"the token is not signed with a key of {issuer}, or that issuer cannot be reached")
        return self._checked(token, key)

    def _checked(self, token: str, public: _PublicKey) -> Caller:
        expected = self._expected
        try:
            said: dict[str, Any] = jwt.decode(
                token,
                public.key.key,
                algorithms=[name for name in public.algorithms if name in expected.algorithms],
                audience=expected.audience,
                issuer=expected.issuer,
                leeway=expected.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.InvalidTokenError, jwt.InvalidKeyError, TypeError, ValueError) as error:
            _logger.info("a token was rejected", extra={"fields": {"why": type(error).__name__}})
            raise TokenError(_wrong(error, expected)) from error
        return expected.claims.caller(said)


class _IssuerKeys:
    """The public keys of an issuer, fetched again when they are old or a token names an unknown key."""

    def __init__(self, issuer: str, uptime: Callable[[], float]) -> None:
        self._issuer = issuer
        self._uptime = uptime
        self._http = httpx2.AsyncClient(timeout=5.0, follow_redirects=False, trust_env=False)
        self._lock = asyncio.Lock()
        self._looks = Buckets(LOOKS_PER_S, LOOKS_AT_ONCE, uptime)
        self._keys: tuple[_PublicKey, ...] = ()
        self._looked_s = -inf
        self._tries = 0

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, kid: object) -> _PublicKey | None:
        """Return the key of that id; without an id, the key if there is only one."""
        tries = self._tries
        async with self._lock:
            found = self._named(kid)
            is_fresh = self._uptime() - self._looked_s < FRESH_S
            # If another task fetched the keys while this one waited for the lock, they are newer than this call.
            if (found and is_fresh) or self._tries != tries or self._looks.take(""):
                return found
            self._tries += 1
            await self._look()
            return self._named(kid)

    def _named(self, kid: object) -> _PublicKey | None:
        if self._uptime() - self._looked_s >= KEPT_S:
            return None
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == kid), None)

    async def _look(self) -> None:
        try:
            base = self._issuer.rstrip("/")
            said = msgspec.json.decode(await self._fetch(f"{base}/.well-known/openid-configuration"), type=_Discovery)
            if said.issuer != self._issuer:
                raise ValueError("the discovery document names another issuer")
            document = msgspec.json.decode(await self._fetch(said.jwks_uri), type=_KeySet)
        except (httpx2.HTTPError, msgspec.MsgspecError, TimeoutError, ValueError) as error:
            _logger.warning("the keys of the issuer cannot be fetched", exc_info=error)
            return
        self._keys = tuple(key for data in document.keys if (key := _public_key(data)))
        self._looked_s = self._uptime()

    async def _fetch(self, url: str) -> bytes:
        parts = httpx2.URL(url)
        if parts.scheme != "https" and not is_loopback(parts.host):
            raise ValueError("the issuer must be fetched over https")
        body = bytearray()
        async with asyncio.timeout(10.0), self._http.stream("GET", url) as response:
            response.raise_for_status()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ValueError("the document is too large")
        return bytes(body)


def open_issuer(expected: Expected) -> Issuer:
    """Return the issuer for these requirements; raise if the settings are incomplete or invalid."""
    if not expected.issuer or not expected.audience:
        raise CodedError("setting_invalid", "the mode `oidc` needs `server.oidc.issuer` and `server.oidc.audience`")
    url = httpx2.URL(expected.issuer)
    if url.scheme != "https" and not is_loopback(url.host):
        raise CodedError("setting_invalid", "`server.oidc.issuer` must begin with https://")
    for name in (expected.claims.tenant, expected.claims.project):
        if name and name != EVERY:
            msgspec.convert(name, OwnName)
    return Issuer(expected)


def _public_key(data: dict[str, Any]) -> _PublicKey | None:
    """Return a key that verifies signatures; None if it is of another kind or not supported."""
    named = data.get("alg")
    algorithms = tuple(name for name in FAMILIES.get(str(data.get("kty")), ()) if named in (None, name))
    if not algorithms or data.get("use", "sig") != "sig":
        return None
    try:
        return _PublicKey(data.get("kid"), PyJWK(data), algorithms)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None


def _wrong(error: Exception, expected: Expected) -> str:
    """Explain why a token is not valid.

    Claims are checked after the signature, so only holders of a token of the issuer learn about them.
    """
    match error:
        case jwt.ExpiredSignatureError():
            return "the token has expired; get a new one from its issuer"
        case jwt.ImmatureSignatureError():
            return "the token is not valid yet"
        case jwt.InvalidAudienceError():
            return f"the token is for another audience; its `aud` must contain {expected.audience}"
        case jwt.InvalidIssuerError():
            return f"the token has another issuer; its `iss` must be {expected.issuer}"
        case jwt.MissingRequiredClaimError():
            return f"the token has no claim `{error.claim}`"
        case jwt.InvalidAlgorithmError():
            return "the token's signature algorithm is not accepted; `server.oidc.algorithms` lists those that are"
        case _:
            return "the token's signature or format is invalid"


def _claimed(said: Mapping[str, object], claim: str, kind: Any) -> str:
    found = _found(said, claim)
    if found is None:
        raise TokenError(f"the token has no claim `{claim}`")
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        wanted = "1 to 128 characters" if kind is User else "1 to 64 letters, digits, '_', '.' or '-'"
        raise TokenError(f"the token's claim `{claim}` must have {wanted}") from error


def _found(said: Mapping[str, object], claim: str) -> object:
    """Return the claim of that name; otherwise follow its dots into nested objects."""
    if claim in said:
        return said[claim]
    first, _, rest = claim.partition(".")
    inside = said.get(first)
    return _found(cast("Mapping[str, object]", inside), rest) if rest and isinstance(inside, Mapping) else None
