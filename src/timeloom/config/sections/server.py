"""Settings of the server: its address, authentication and limits."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from timeloom.config.field_help import SettingHelp
from timeloom.config.sections.governance import NoLimit
from timeloom.config.value_types import Seconds, SecretKey, Url, Words

Mode = Literal["local", "tokens", "oidc"]
Port = Annotated[int, Meta(ge=0, le=65535)]
Bytes = Annotated[int, Meta(ge=1, le=100 * 1024 * 1024)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)] | NoLimit
Rate = Annotated[float, Meta(gt=0, le=1_000_000)] | NoLimit
Claim = Annotated[
    str, Meta(min_length=1, description="the name of a claim; dots select nested objects, as in `realm_access.roles`")
]

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures with a private key; with a shared secret, every verifier could also issue tokens."""

Algorithms = Annotated[
    tuple[Algorithm, ...],
    Meta(
        description="`RS256` to `RS512`, `PS256` to `PS512`, `ES256` to `ES512` or `EdDSA`: an array in the file, "
        "comma-separated elsewhere"
    ),
]
Origins = Annotated[
    tuple[Annotated[str, Meta(pattern=r"\Ahttps?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?\Z")], ...],
    Meta(
        max_length=64,
        description="origins such as `https://app.example`, without a path: an array in the file, comma-separated "
        "elsewhere",
    ),
]


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The issuer of the mode `oidc` and the meaning of its claims."""

    issuer: Annotated[
        Url,
        SettingHelp("Issuer of the tokens in the mode `oidc`: its URL, exactly as in the `iss` claim."),
    ] = ""
    audience: Annotated[
        str,
        SettingHelp("Required audience (`aud`) of tokens: this server's name at the issuer."),
    ] = ""
    algorithms: Annotated[
        Algorithms,
        SettingHelp("Accepted signature algorithms, if the issuer's keys support them."),
    ] = ("RS256", "PS256", "ES256", "EdDSA")
    leeway_s: Annotated[Seconds, SettingHelp("Allowed clock difference in seconds.")] = 30.0
    user_claim: Annotated[Claim, SettingHelp("Claim that contains the user.")] = "sub"
    tenant: Annotated[str, SettingHelp("Tenant of all users; empty uses `server.oidc.tenant_claim`.")] = ""
    tenant_claim: Annotated[Claim, SettingHelp("Claim that contains the tenant.")] = "tenant"
    project: Annotated[
        str,
        SettingHelp(
            "Project of all users, `*` for all projects of their tenant; empty uses `server.oidc.project_claim`."
        ),
    ] = ""
    project_claim: Annotated[Claim, SettingHelp("Claim that contains the project.")] = "project"
    role_claim: Annotated[Claim, SettingHelp("Claim that contains the roles: a word or a list.")] = "roles"
    admin_role: Annotated[
        str,
        SettingHelp("Role in the claim that makes a user an admin; empty makes no user an admin."),
    ] = "timeloom-admin"
    approver_role: Annotated[
        str,
        SettingHelp("Role in the claim that makes a user an approver; empty makes no user an approver."),
    ] = "timeloom-approver"


class ServerLimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one caller."""

    requests_per_s: Annotated[Rate, SettingHelp("Sustained requests per second of one caller.")] = 50.0
    burst: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        SettingHelp("Requests that one caller may send at once after a pause."),
    ] = 500
    failures_per_minute: Annotated[Rate, SettingHelp("Requests per minute without a valid token from one address.")] = (
        30.0
    )
    streams: Annotated[Count, SettingHelp("Number of open streams of one caller.")] = 200
    connections: Annotated[
        Count,
        SettingHelp(
            "Number of open connections of all clients together. The limit of open descriptors may allow fewer."
        ),
    ] = 20_000
    connections_per_address: Annotated[
        Count, SettingHelp("Number of open connections of one address that have not sent a valid token yet.")
    ] = 1000
    reruns: Annotated[Count, SettingHelp("Number of running re-runs of one caller.")] = 3
    all_reruns: Annotated[Count, SettingHelp("Number of running re-runs of all callers together.")] = 8
    body_s: Annotated[Seconds, SettingHelp("Timeout for receiving the body of a request, in seconds.")] = 30.0
    max_body_bytes: Annotated[Bytes, SettingHelp("Largest JSON body of a request, in bytes.")] = 2 * 1024 * 1024
    max_upload_bytes: Annotated[Bytes, SettingHelp("Largest total size of the files of a request, in bytes.")] = (
        10 * 1024 * 1024
    )
    max_uploads: Annotated[int, Meta(ge=1, le=1000), SettingHelp("Maximum number of files in a request.")] = 10


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of `timeloom serve`."""

    host: Annotated[str, SettingHelp("Address that the server listens on.", option="--host", metavar="ADDRESS")] = (
        "127.0.0.1"
    )
    port: Annotated[
        Port, SettingHelp("Port that the server listens on; 0 picks a free port.", option="--port", metavar="N")
    ] = 8700
    mode: Annotated[
        Mode,
        SettingHelp(
            "Authentication: `local` uses the token that is printed at the start and serves only this machine; "
            "`tokens` uses the keys of `server.tokens_file`; `oidc` uses tokens of `server.oidc.issuer`.",
            option="--mode",
        ),
    ] = "local"
    token: Annotated[
        SecretKey,
        SettingHelp(
            "Token of the mode `local`, or a reference to it; empty creates a new one at each start.", secret=True
        ),
    ] = ""
    tokens_file: Annotated[
        Path | None,
        SettingHelp(
            "File with the hashes of API keys for the mode `tokens`; also accepted in the mode `oidc`.",
            option="--tokens-file",
            metavar="FILE",
        ),
    ] = None
    hosts: Annotated[
        Words,
        SettingHelp(
            "Accepted host names; by default, the loopback names in the mode `local` and all names in the other modes."
        ),
    ] = ()
    allow_origins: Annotated[Origins, SettingHelp("Origins whose pages may use the server with a token (CORS).")] = ()
    proxies: Annotated[
        Words,
        SettingHelp("Addresses of trusted proxies: their headers determine a client's address and scheme."),
    ] = ()
    approvals: Annotated[
        Literal["owner", "approver"],
        SettingHelp(
            "Who decides on calls that wait for approval: also the owner of the conversation, or only approvers and "
            "admins of its project."
        ),
    ] = "owner"
    models: Annotated[
        Words,
        SettingHelp("Models that users may choose for re-runs, in addition to the server's model."),
    ] = ()
    metrics: Annotated[
        Literal["token", "open", "off"],
        SettingHelp(
            "Who may read `/metrics`: `token` admins of all tenants and projects, `open` every client, `off` none."
        ),
    ] = "token"
    reader_bytes: Annotated[
        Bytes, SettingHelp("Bytes that may wait for one reader of a stream before it is disconnected.")
    ] = 1024 * 1024
    heartbeat_s: Annotated[Seconds, SettingHelp("Seconds without an event after which a stream sends a heartbeat.")] = (
        15.0
    )
    rest_s: Annotated[Seconds, SettingHelp("Seconds that an idle conversation stays open after its last turn.")] = 60.0
    grace_s: Annotated[Seconds, SettingHelp("Seconds that running turns may continue while the server shuts down.")] = (
        3.0
    )
    limits: ServerLimitSettings = ServerLimitSettings()
    oidc: OidcSettings = OidcSettings()

    def __repr__(self) -> str:
        return "ServerSettings(...)"
