"""Settings of the server: where it listens, who may use it, and how much it takes."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from timeloom.config.field_help import About
from timeloom.config.sections.governance import NoLimit
from timeloom.config.value_types import Seconds, Url, Words

Mode = Literal["local", "tokens", "oidc"]
Port = Annotated[int, Meta(ge=0, le=65535)]
Bytes = Annotated[int, Meta(ge=1, le=100 * 1024 * 1024)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)] | NoLimit
Rate = Annotated[float, Meta(gt=0, le=1_000_000)] | NoLimit
Key = Annotated[str, Meta(pattern=r"\A[!-~]*\Z", description="a key of visible ASCII characters without spaces")]
Claim = Annotated[
    str, Meta(min_length=1, description="the name of a claim; dots lead into objects, as in `realm_access.roles`")
]

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures that need a private key: with any other, whoever can check a token can also make one."""

Algorithms = Annotated[
    tuple[Algorithm, ...],
    Meta(
        description="`RS256` to `RS512`, `PS256` to `PS512`, `ES256` to `ES512` or `EdDSA`; an array in the file, "
        "commas between them elsewhere"
    ),
]
Origins = Annotated[
    tuple[Annotated[str, Meta(pattern=r"\Ahttps?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?\Z")], ...],
    Meta(
        max_length=64,
        description="origins such as `https://app.example`, without a path; an array in the file, commas between them "
        "elsewhere",
    ),
]


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whose tokens the mode `oidc` takes, and what their claims mean."""

    issuer: Annotated[
        Url,
        About("Who issues the tokens of the mode `oidc`: its address, as the tokens say it.", lifts_guard=True),
    ] = ""
    audience: Annotated[str, About("For whom a token must be: this server's name at the issuer.", lifts_guard=True)] = (
        ""
    )
    algorithms: Annotated[
        Algorithms, About("Signatures that are taken, where the issuer's keys are for them.", lifts_guard=True)
    ] = ("RS256", "PS256", "ES256", "EdDSA")
    leeway_s: Annotated[Seconds, About("Seconds by which clocks may differ.")] = 30.0
    user_claim: Annotated[Claim, About("The claim that says who it is.", lifts_guard=True)] = "sub"
    tenant: Annotated[
        str, About("The tenant of everybody; empty takes it from `server.oidc.tenant_claim`.", lifts_guard=True)
    ] = ""
    tenant_claim: Annotated[Claim, About("The claim with the tenant.", lifts_guard=True)] = "tenant"
    project: Annotated[
        str,
        About(
            "The project of everybody, `*` for all of their tenant; empty takes it from `server.oidc.project_claim`.",
            lifts_guard=True,
        ),
    ] = ""
    project_claim: Annotated[Claim, About("The claim with the project.", lifts_guard=True)] = "project"
    role_claim: Annotated[Claim, About("The claim with the roles: a word or a list.", lifts_guard=True)] = "roles"
    admin_role: Annotated[
        str, About("Who has this role there is an admin here; empty is nobody.", lifts_guard=True)
    ] = "timeloom-admin"
    approver_role: Annotated[
        str, About("Who has this role there is an approver here; empty is nobody.", lifts_guard=True)
    ] = "timeloom-approver"


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much one caller may ask for."""

    requests_per_s: Annotated[Rate, About("Requests a second that one caller may make in the long run.")] = 50.0
    burst: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)], About("Requests that one caller may make at once after a pause.")
    ] = 500
    failures_per_minute: Annotated[
        Rate, About("Requests without a known token that one address may make in a minute.")
    ] = 30.0
    streams: Annotated[Count, About("Streams that one caller may have open.")] = 200
    reruns: Annotated[Count, About("Re-runs that one caller may have under way.")] = 3
    all_reruns: Annotated[Count, About("Re-runs of all callers together that may be under way.")] = 8
    body_s: Annotated[Seconds, About("Seconds that the body of a request may take to arrive.")] = 30.0
    max_body_bytes: Annotated[Bytes, About("Largest body of a request that is JSON.")] = 2 * 1024 * 1024
    max_upload_bytes: Annotated[Bytes, About("Largest size of all files of a request together.")] = 10 * 1024 * 1024
    max_uploads: Annotated[int, Meta(ge=1, le=1000), About("Most files of a request.")] = 10


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How `timeloom serve` serves."""

    host: Annotated[str, About("Address that the server listens on.", option="--host", metavar="ADDRESS")] = "127.0.0.1"
    port: Annotated[
        Port, About("Port that the server listens on; 0 takes a free one.", option="--port", metavar="N")
    ] = 8700
    mode: Annotated[
        Mode,
        About(
            "Who may use the server: whoever has the token that is printed at its start, on this machine only; "
            "whoever has a key of `server.tokens_file`; or whoever has a token of `server.oidc.issuer`.",
            option="--mode",
            lifts_guard=True,
        ),
    ] = "local"
    token: Annotated[Key, About("The token of the mode `local`; empty makes a new one at each start.", secret=True)] = (
        ""
    )
    tokens_file: Annotated[
        Path | None,
        About(
            "The keys of the mode `tokens`, by their hashes; also taken in the mode `oidc`.",
            option="--tokens-file",
            metavar="FILE",
            lifts_guard=True,
        ),
    ] = None
    hosts: Annotated[
        Words,
        About(
            "Names by which the server may be addressed; without any, those of this machine in the mode `local`, "
            "and all elsewhere.",
            lifts_guard=True,
        ),
    ] = ()
    allow_origins: Annotated[
        Origins, About("Origins whose pages may use the server with a token (CORS).", lifts_guard=True)
    ] = ()
    proxies: Annotated[
        Words,
        About(
            "Addresses of proxies in front of the server: what they say of a client's address and scheme is believed.",
            lifts_guard=True,
        ),
    ] = ()
    approvals: Annotated[
        Literal["owner", "approver"],
        About(
            "Who decides on calls that wait for a person: also the owner of the conversation, or only approvers and "
            "admins of its project.",
            lifts_guard=True,
        ),
    ] = "owner"
    models: Annotated[
        Words,
        About(
            "Models beside the server's own with which people may run a conversation again.",
            lifts_guard=True,
        ),
    ] = ()
    metrics: Annotated[
        Literal["token", "open", "off"],
        About("Who may read `/metrics`: admins of everything, everybody, or nobody.", lifts_guard=True),
    ] = "token"
    reader_bytes: Annotated[
        Bytes, About("How much may wait for one reader of a stream before it is told to come back.")
    ] = 1024 * 1024
    heartbeat_s: Annotated[Seconds, About("Seconds without an event after which a stream says that it is alive.")] = (
        15.0
    )
    rest_s: Annotated[Seconds, About("Seconds that a conversation stays open here after its last turn.")] = 60.0
    grace_s: Annotated[Seconds, About("Seconds that turns may go on while the server closes.")] = 3.0
    limits: LimitSettings = LimitSettings()
    oidc: OidcSettings = OidcSettings()

    def __repr__(self) -> str:
        return "ServerSettings(...)"
