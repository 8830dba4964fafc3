"""The mode `oidc`: tokens of an issuer on this machine, with real keys, and all the ways in which they are none."""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as new_ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as new_rsa_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.harness.replies import answers
from tests.server.server_harness import LIST, ServerHarness, repeated_reply, run
from timeloom.core.codes import CodedError
from timeloom.server.auth.authenticate import Authenticator
from timeloom.server.auth.oidc import ClaimMapping, OidcIssuer, TokenRequirements, open_issuer
from timeloom.server.auth.principal import Principal

AUDIENCE = "timeloom"
Private = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey

RSA, OTHER_RSA = (new_rsa_key(public_exponent=65537, key_size=2048) for _ in range(2))
EC = new_ec_key(SECP256R1())
ED = Ed25519PrivateKey.generate()


def published(key: Private, kid: str, **more: object) -> dict[str, Any]:
    match key:
        case RSAPrivateKey():
            said = RSAAlgorithm.to_jwk(key.public_key())
        case EllipticCurvePrivateKey():
            said = ECAlgorithm.to_jwk(key.public_key())
        case Ed25519PrivateKey():
            said = OKPAlgorithm.to_jwk(key.public_key())
    return {**json.loads(said), "kid": kid, "use": "sig", **more}


class Server:
    """An issuer with changeable published documents that counts requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = url
        self.keys: list[dict[str, Any]] = [published(RSA, "rsa"), published(EC, "ec"), published(ED, "ed")]
        self.padding = ""
        self.is_down = False
        self.looks = 0

    def answer(self, path: str) -> dict[str, Any] | None:
        if self.is_down:
            return None
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.name, "jwks_uri": f"{self.url}/keys"}
        self.looks += 1
        return {"keys": self.keys, "padding": self.padding}

    def token(self, key: Private = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **claims: object) -> str:
        now = int(time.time())
        said: dict[str, Any] = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "exp": now + 60, "nbf": now - 1}
        said |= {"tenant": "home", "project": "demo"} | claims
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, key, algorithm, {"kid": kid} if kid else None)


@contextmanager
def issuing() -> Generator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = issuer.answer(self.path)
            body = json.dumps(said).encode()
            self.send_response(200 if said else 503)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Server(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


class Uptime:
    """A clock that advances on demand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def known(server: Server, *tokens: str, claims: ClaimMapping | None = None) -> list[Principal | None]:
    async def whose() -> list[Principal | None]:
        expected = TokenRequirements(issuer=server.url, audience=AUDIENCE, claims=claims or ClaimMapping())
        async with OidcIssuer(expected) as issuer:
            return [await whose_of(issuer, token) for token in tokens]

    return asyncio.run(whose())


async def whose_of(issuer: OidcIssuer, token: str) -> Principal | None:
    return await Authenticator((), issuer).find_principal(token)


def test_a_token_of_each_kind_of_key_says_who_it_is() -> None:
    with issuing() as server:
        tokens = (
            server.token(),
            server.token(RSA, "PS256"),
            server.token(EC, "ES256", "ec"),
            server.token(ED, "EdDSA", "ed"),
            server.token(roles=["other", "timeloom-admin"]),
            server.token(roles="timeloom-approver"),
            server.token(aud=["another", AUDIENCE]),
        )
        found = known(server, *tokens)
        ann = Principal(tenant="home", project="demo", user="ann")
        roles = ["user"] * 4 + ["admin", "approver", "user"]
        assert [one and one.role for one in found] == roles
        assert found[0] == ann
        assert server.looks == 1


def forged_with_public_key(server: Server) -> str:
    """Signed with HS256 and the public key as secret, which a careless library accepts as RS256."""
    secret = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _, payload, _ = server.token().split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"rsa"}').rstrip(b"=").decode()
    signature = hmac.new(secret, f"{header}.{payload}".encode(), hashlib.sha256).digest()
    return f"{header}.{payload}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def unsigned(server: Server, algorithm: str = "none") -> str:
    header = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "rsa"}).encode()).rstrip(b"=").decode()
    return f"{header}.{server.token().split('.')[1]}."


def altered(server: Server) -> str:
    head, _, signature = server.token().split(".")
    return f"{head}.{server.token(sub='root').split('.')[1]}.{signature}"


def test_what_is_no_good_token_is_nobodys() -> None:
    long_ago = int(time.time()) - 3600
    with issuing() as server:
        server.keys.append(published(RSA, "for-rs512", alg="RS512"))
        server.keys.append(published(OTHER_RSA, "encrypts", use="enc"))
        server.keys.append({"kty": "oct", "kid": "shared", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"})
        bad = {
            "unsigned": unsigned(server),
            "unsigned in capitals": unsigned(server, "None"),
            "signed with the public key": forged_with_public_key(server),
            "altered": altered(server),
            "signed by somebody else": server.token(OTHER_RSA),
            "expired": server.token(exp=long_ago),
            "not yet good": server.token(nbf=int(time.time()) + 3600),
            "without an end": server.token(exp=None),
            "for another audience": server.token(aud="another"),
            "for nobody": server.token(aud=None),
            "of another issuer": server.token(iss="http://127.0.0.1:1"),
            "of an unknown key": server.token(kid="unknown"),
            "without a key's name where there are several": server.token(kid=None),
            "with a signature that is not taken": server.token(RSA, "RS384"),
            "with another signature than the key is for": server.token(kid="for-rs512"),
            "of a key that encrypts": server.token(OTHER_RSA, kid="encrypts"),
            "of a shared secret": jwt.encode({"sub": "ann"}, "secret-secret-secret-secret-secret", "HS256"),
            "without a user": server.token(sub=None),
            "of every tenant": server.token(tenant="*"),
            "of a tenant that is none": server.token(tenant="../x"),
            "without a project": server.token(project=None),
            "no token": "a.b.c",
            "nothing": "",
        }
        assert dict(zip(bad, known(server, *bad.values()), strict=True)) == dict.fromkeys(bad)


def test_clocks_may_differ_a_little() -> None:
    with issuing() as server:
        assert known(server, server.token(exp=int(time.time()) - 5)) != [None]


def test_what_the_claims_mean_is_set() -> None:
    claims = ClaimMapping(
        user="email", tenant="acme", project="*", role_claim="realm_access.roles", admin_role="boss", approver_role=""
    )
    with issuing() as server:
        token = server.token(email="ann@acme.example", realm_access={"roles": ["boss"]}, tenant=None)
        assert known(server, token, claims=claims) == [
            Principal(tenant="acme", project="*", user="ann@acme.example", role="admin")
        ]
        assert known(server, server.token(email=["ann"]), claims=claims) == [None]


def test_new_keys_are_found_and_old_ones_forgotten_without_asking_too_often() -> None:
    async def check(server: Server, uptime: Uptime) -> None:
        async with OidcIssuer(TokenRequirements(issuer=server.url, audience=AUDIENCE), uptime) as issuer:
            assert await issuer.find_principal(server.token())
            server.keys = [published(OTHER_RSA, "new")]
            # Found at once, for nobody has asked for unknown keys before.
            assert await issuer.find_principal(server.token(OTHER_RSA, kid="new"))
            assert await whose_of(issuer, server.token()) is None
            looks = server.looks
            for number in range(50):
                assert await whose_of(issuer, server.token(kid=f"guess-{number}")) is None
            assert server.looks <= looks + 1
            # Of the many that wait together, one looks.
            uptime.now_s += 3600
            looks = server.looks
            tokens = [server.token(OTHER_RSA, kid="new") for _ in range(10)]
            assert all(await asyncio.gather(*(issuer.find_principal(token) for token in tokens)))
            assert server.looks == looks + 1

    with issuing() as server:
        asyncio.run(check(server, Uptime()))


def test_keys_are_kept_for_a_while_when_the_issuer_is_away() -> None:
    async def check(server: Server, uptime: Uptime) -> None:
        async with OidcIssuer(TokenRequirements(issuer=server.url, audience=AUDIENCE), uptime) as issuer:
            assert await issuer.find_principal(server.token())
            server.is_down = True
            uptime.now_s += 3600
            assert await issuer.find_principal(server.token())
            uptime.now_s += 86_400
            assert await whose_of(issuer, server.token()) is None
            server.is_down = False
            uptime.now_s += 60
            assert await issuer.find_principal(server.token())

    with issuing() as server:
        asyncio.run(check(server, Uptime()))


def test_an_issuer_that_calls_itself_otherwise_or_says_too_much_is_not_believed() -> None:
    with issuing() as server:
        server.name = "https://elsewhere.example"
        assert known(server, server.token()) == [None]
    with issuing() as server:
        server.padding = "x" * 600_000
        assert known(server, server.token()) == [None]


@pytest.mark.parametrize(
    ("issuer", "audience"), [("", "a"), ("https://issuer.example", ""), ("http://issuer.example", "a")]
)
def test_an_issuer_has_an_audience_and_is_asked_over_https(issuer: str, audience: str) -> None:
    with pytest.raises(CodedError, match="oidc"):
        open_issuer(TokenRequirements(issuer=issuer, audience=audience))


def test_tokens_of_an_issuer_are_let_in_beside_keys(tmp_path: Path) -> None:
    async def check(server: Server) -> None:
        async with OidcIssuer(TokenRequirements(issuer=server.url, audience=AUDIENCE)) as issuer:
            stage = ServerHarness(tmp_path, repeated_reply(answers("Done.")))
            stage.registers = (issuer,)
            async with stage.serve() as served:
                ann = served.client(server.token())
                assert (await ann.send_message("hello"))["status"] == "started"
                assert len((await ann.get(LIST)).json()["conversations"]) == 1
                # The same person with a key of the file.
                assert len((await served.ann.get(LIST)).json()["conversations"]) == 1
                assert (await ann.get("/conversations/home/other")).status_code == 403
                assert (await served.client(server.token(aud="x")).get(LIST)).status_code == 401

    with issuing() as server:
        run(lambda: check(server))


def test_whoever_is_refused_is_told_what_is_wrong_with_their_token(tmp_path: Path) -> None:
    async def check(server: Server) -> None:
        async with OidcIssuer(TokenRequirements(issuer=server.url, audience=AUDIENCE)) as issuer:
            stage = ServerHarness(tmp_path, repeated_reply(answers("Done.")))
            stage.registers = (issuer,)
            async with stage.serve() as served:
                for token, why in (
                    (server.token(exp=int(time.time()) - 3600), "the token has expired"),
                    (server.token(nbf=int(time.time()) + 3600), "not valid yet"),
                    (server.token(aud="another"), f"its `aud` must contain {AUDIENCE}"),
                    (server.token(iss="http://127.0.0.1:1"), f"its `iss` must be {server.url}"),
                    (server.token(exp=None), "no claim `exp`"),
                    (server.token(tenant=None), "no claim `tenant`"),
                    (server.token(project="*"), "claim `project` must have 1 to 64"),
                    (server.token(sub="a" * 129), "claim `sub` must have 1 to 128 visible characters"),
                    (server.token(sub=""), "claim `sub` must have 1 to 128 visible characters"),
                    (server.token(sub="ann\n"), "without control, invisible or direction-changing ones"),
                    (server.token(sub="ann\u202e"), "without control, invisible or direction-changing ones"),
                    (server.token(sub="an\u200bn"), "without control, invisible or direction-changing ones"),
                    (server.token(kid="unknown"), f"not signed with a key of {server.url}"),
                    (server.token(RSA, "RS384"), "`server.oidc.algorithms`"),
                    (altered(server), "signature or format is invalid"),
                    ("nobody", "the token is unknown or was revoked"),
                    ("x" * 16_385, "the token is too long; at most 16384 characters"),
                ):
                    refused = await served.client(token).get(LIST)
                    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
                    assert why in refused.json()["detail"]
                    asked = refused.headers["www-authenticate"]
                    assert asked.startswith('Bearer error="invalid_token", error_description="')
                    assert why in asked
                nothing = await served.http.get(LIST)
                assert nothing.headers["www-authenticate"] == "Bearer"
                assert "send the token as" in nothing.json()["detail"]

    with issuing() as server:
        run(lambda: check(server))
