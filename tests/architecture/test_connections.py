"""Each module that can open a network connection is listed here with the reason why it may.

Addresses that can come from a model, a page, a user's text or a bundle go through `web_access.guarded_network`. The
other modules connect to addresses that the operator configured by name, or to sockets of this machine.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2] / "src"

CONNECTING_PACKAGES: Final = frozenset({
    *("aiohappyeyeballs", "aiohttp", "boto3", "botocore", "ddgs", "ftplib", "http.client", "httpcore2", "httpx2"),
    *("imaplib", "jwt", "obstore", "opentelemetry.exporter", "poplib", "psycopg", "redis", "requests", "smtplib"),
    *("socket", "socketserver", "ssl", "telnetlib", "urllib.request", "urllib3", "websockets", "xmlrpc"),
})  # fmt: skip
"""Packages with which a module can open a connection, or on whose connections it decides."""

CONNECTING_CALLS: Final = frozenset({
    *("open_connection", "open_unix_connection", "create_connection", "create_unix_connection", "sock_connect"),
    *("create_datagram_endpoint", "start_tls", "connect_tcp"),
})  # fmt: skip
"""Functions of asyncio and of network backends that open one."""

REASONS: Final = {
    "timeloom.web_access.guarded_network": "the guard: it resolves, checks and connects",
    "timeloom.web_access.download": "requests through the guard only",
    "timeloom.web_access.search.service": "search services that the operator configured",
    "timeloom.web_access.search.duckduckgo": "a search service that the operator configured",
    "timeloom.client.connection": "the server that the user of the client named",
    "timeloom.client.event_stream": "the server that the user of the client named",
    "timeloom.providers.http.direct": "model endpoints that the operator configured",
    "timeloom.providers.http.httpx2_transport": "model endpoints that the operator configured, through a proxy",
    "timeloom.providers.http.transport": "reads the proxies of the environment; connects to nothing",
    "timeloom.server.auth.oidc": "the issuer that the operator configured",
    "timeloom.server.observability.telemetry": "the collector that the operator configured",
    "timeloom.server.bootstrap": "the listening socket of the server",
    "timeloom.server.http_server": "the listening socket of the server",
    "timeloom.cli.commands.model.command": "the listening socket of the scripted model",
    "timeloom.platform.certificates": "loads certificates; connects to nothing",
    "timeloom.stores.process_locks": "reads the name of this machine; connects to nothing",
    "timeloom.sandbox.broker_socket": "a Unix socket of this machine, to a program in the sandbox",
    "timeloom.sandbox.docker.engine": "the Unix socket of the engine that the operator configured",
    "timeloom.sandbox.docker.worker": "a pair of sockets of this process",
    "timeloom.sandbox.docker.guest.relay": "a Unix socket inside the container",
    "timeloom.sandbox.remote.cloud": "the cloud that the operator configured",
}


def connecting_modules() -> Iterator[str]:
    for file in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(file.read_text())
        if any(map(connects, ast.walk(tree))):
            yield ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def connects(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(is_connecting(alias.name) for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            return is_connecting(module) or any(is_connecting(f"{module}.{alias.name}") for alias in names)
        case ast.Attribute(attr=name):
            return name in CONNECTING_CALLS
        case ast.Call(args=[ast.Constant(value=str(module)), *_], func=function):
            return ast.unparse(function).endswith(("__import__", "import_module")) and is_connecting(module)
        case _:
            return False


def is_connecting(module: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in CONNECTING_PACKAGES)


def test_each_module_that_can_open_a_connection_has_its_reason() -> None:
    assert set(connecting_modules()) == set(REASONS)
