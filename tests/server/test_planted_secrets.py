"""A secret is planted wherever one may be, and every byte that a server stores or sends is searched for it."""

import asyncio
import base64
import io
import json
import logging
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.harness.replies import answers, calls
from tests.server.test_telemetry import collector
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.bundle_tool import BundleTool
from timeloom.bundles.context import get_secret, make_context
from timeloom.config.resolve import SettingSources, resolve
from timeloom.config.toml_file import parse_config
from timeloom.core.blocks import ToolError
from timeloom.core.sources import SourceRow
from timeloom.ports.tool import Artifact, Emit, Outcome, Tool, ToolContext, ToolNotice
from timeloom.server.bootstrap import serve
from timeloom.server.observability.logs import JsonLogFormatter
from timeloom.testing.fake_service import FakeResponse, fake_service
from timeloom.tools.define import tool
from timeloom.tools.exec.tool import TOOL_ID

KEY = "planted/key+of=the~model"
TOKEN = "planted-token-of-the-server-0123456789"
SHARED = "planted-secret-that-all-bundles-share"
SHOP = 'planted "shop" secret\nwith a second line, and ümläuts'
BUNDLE = Bundle(name="shop", secrets={"token": "env:SHOP_SECRET"})

PROGRAM = """
import glob, os, sys
print("environment", dict(os.environ))
for name in sys.argv + glob.glob("/proc/self/environ") + glob.glob(str(OUT_DIR) + "/**", recursive=True):
    if os.path.isfile(name):
        print(name, open(name, "rb").read()[:10000])
"""


def stream(text: str) -> FakeResponse:
    """Return a reply as chat completions stream it."""
    chunk: dict[str, object] = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    end: dict[str, object] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return FakeResponse(parts=[f"data: {json.dumps(one)}\n\n".encode() for one in (chunk, end)] + [b"data: [DONE]\n\n"])


def refusal(status: int) -> FakeResponse:
    """Return an error that quotes the key."""
    body = json.dumps({"error": {"message": f"the key {KEY} is tired, or {KEY[:-1]}", "type": KEY}}).encode()
    return FakeResponse(
        status=status, headers=[("content-type", "application/json"), ("retry-after", "0")], parts=[body]
    )


def error_in_stream() -> FakeResponse:
    return FakeResponse(parts=[f'data: {{"error": {{"code": 503, "message": "down for {KEY}"}}}}\n\n'.encode()])


def shop_tools() -> list[Tool]:
    """Return tools that leak the bundle's secret in each way that a tool has."""

    def secret() -> str:
        return f"{get_secret('b:token').reveal()} and {get_secret('services.mail').reveal()}"

    @tool("shop.returns", effect="pure")
    def returns() -> dict[str, object]:
        """Return it."""
        return {"headers": {secret(): [secret()]}, "as text": json.dumps(secret()), "url": f"https://x/?k={KEY}"}

    @tool("shop.raises", effect="pure")
    async def raises() -> str:
        """Raise it."""
        raise RuntimeError(f"401 for {secret()} and {KEY}")

    @tool("shop.refuses", effect="pure")
    def refuses() -> dict[str, object]:
        """Refuse with it."""
        error = {"code": "denied", "message": secret(), "where": KEY, "details": {"header": secret()}}
        return {"ok": False, "error": error}

    @tool("shop.reports", effect="pure")
    def reports(emit: Emit, context: ToolContext) -> Outcome:
        """Report it."""
        emit("stdout", f"calling with {secret()}\n")
        return Outcome(
            notices=(ToolNotice("tool_call_error", f"used {secret()}"),),
            sources=(SourceRow(sid=0, title=secret(), url="https://example.org/", text=KEY),),
            status=json.dumps({"with": secret()}),
            artifacts=(
                Artifact(path=f"tc:{context.turn_id}.{context.tool_call_id}.result", mime="text/plain", text=secret()),
                Artifact(path=f"fi:{context.turn_id}.files/a.png", mime="image/png", data=secret().encode()),
            ),
            summary=json.dumps({"with": KEY}),
            error=ToolError(code="denied", message=secret(), details={"key": KEY}),
        )

    return [returns, raises, refuses, reports]


def program() -> str:
    code = PROGRAM + 'print("result", io_tools.tool_call("shop.returns", {}))\nprint("the end")\n'
    return f"<channel:code>{code}</channel:code>{calls(TOOL_ID, contract=[])}"


@contextmanager
def captured_logs() -> Generator[io.StringIO]:
    """Capture all log records of timeloom, as text and as the server writes them."""
    written, logger = io.StringIO(), logging.getLogger("timeloom")
    handlers = [logging.StreamHandler(written), logging.StreamHandler(written)]
    handlers[1].setFormatter(JsonLogFormatter())
    level = logger.level
    logger.setLevel(logging.DEBUG)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield written
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)


def toml(model_url: str, collector_url: str) -> str:
    return f"""
        model = "openai:some-model"
        title_model = "none"
        data_dir = "data"
        openai.base_url = "{model_url}/v1"
        openai.api_key = "command:cat key.txt"
        server.token = "file:token.txt"
        server.port = 0
        storage.signing_key = "file:heads.pem"
        secrets."services.mail" = "file:mail.txt"
        telemetry.endpoint = "{collector_url}"
        telemetry.content = true
    """


async def sent_by_the_server(url: str) -> bytes:
    """Run a turn over HTTP and return every byte that the client received."""
    received = bytearray()
    async with httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=60) as http:
        headers = {"accept": "text/event-stream"}
        body = {"message": "leak it"}
        async with http.stream("POST", "/chat/home/demo", json=body, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            async for chunk in response.aiter_bytes():
                received += chunk
                if b"event: chat.complete" in received and received.endswith(b"\n\n"):
                    break
        listed = (await http.get("/conversations/home/demo")).json()
        conversation = listed["conversations"][0]["id"]
        for path in ("timeline", "prompt", "sources", "export", "status", "files"):
            received += (await http.get(f"/conversations/home/demo/{conversation}/{path}")).content
        for path in ("/metrics", "/health", "/"):
            received += (await http.get(path)).content
    return bytes(received)


def forms(secret: str) -> list[bytes]:
    quoted = json.dumps(secret)[1:-1].encode()
    return [secret.encode(), quoted, msgspec.json.encode(secret)[1:-1], *(line.encode() for line in secret.split("\n"))]


def assert_absent(where: str, data: bytes) -> None:
    for name, secret in (("key", KEY), ("token", TOKEN), ("shop", SHOP), ("shared", SHARED)):
        for form in forms(secret):
            at = data.find(form)
            assert at < 0, f"the {name} is in {where}: {data[max(0, at - 200) : at + 100]!r}"


def test_no_planted_secret_is_stored_or_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_SECRET", SHOP)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key.txt").write_text(f"{KEY}\n")
    (tmp_path / "token.txt").write_text(TOKEN)
    (tmp_path / "mail.txt").write_text(SHARED)
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "heads.pem").write_bytes(pem)
    replies = [stream(calls(one.spec.tool_id)) for one in shop_tools()]
    steps = [refusal(500), error_in_stream(), *replies, stream(program()), stream(answers("Nothing leaked."))]

    async def check() -> tuple[bytes, bytes]:
        async with fake_service(*steps) as model:
            file = parse_config(toml(model.url, collected), "timeloom.toml", tmp_path, is_explicit=True)
            loaded = resolve(SettingSources(file=file))
            bundle = make_context(BUNDLE, loaded.settings.secrets)
            tools = [BundleTool(one, bundle) for one in shop_tools()]
            async with serve(loaded.settings, tools=tools) as server:
                received = await sent_by_the_server(server.url)
            assert all(KEY in request.headers["authorization"] for request in model.requests)
            assert len(model.requests) == len(steps)
            return received, b"\n".join(request.body for request in model.requests)

    with collector() as (collected, spans), captured_logs() as logs:
        received, asked = asyncio.run(check())

    stored = {str(path): path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    assert b"Nothing leaked." in received
    assert any(b"Nothing leaked." in data for data in stored.values())
    assert asked.count(b"[secret]") > 8
    assert spans
    assert "shop.raises failed" in logs.getvalue()
    assert_absent("a response", received)
    assert_absent("a model request", asked)
    assert_absent("the log", logs.getvalue().encode())
    for path, body in spans:
        assert_absent(f"the span {path}", body)
    for path, data in stored.items():
        assert_absent(path, data)
        assert base64.b64encode(pem) not in data
        assert pem.splitlines()[1] not in data
    assert b"environment {" in received
    assert b"the end" in received


def test_the_command_settings_shows_references_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "timeloom.toml").write_text(toml("http://127.0.0.1:1", "http://127.0.0.1:2"))
    command = ["timeloom", "settings", "--config", "timeloom.toml"]
    environ = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": KEY, "HOME": str(tmp_path)}
    program = Path(pytest.__file__).parents[4] / "bin" / command[0]
    done = subprocess.run([program, *command[1:]], cwd=tmp_path, env=environ, capture_output=True, check=True)
    assert b"command:cat key.txt" in done.stdout
    assert_absent("the output", done.stdout + done.stderr)
