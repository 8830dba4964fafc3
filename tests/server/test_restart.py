"""A server process ends in the middle of a turn, and its clients continue after the restart."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import ApiClient, Step, blocks_in, calls, number_blocks
from timeloom.core.ids import ConversationId
from timeloom.stores.sqlite import SqliteStore

pytestmark = pytest.mark.slow

WRITES = [calls("react.write", path=f"{n}.md", content=f"text {n}") for n in range(3)]
PATIENCE_S = 300
"""Allowance for a busy machine."""
UNENDING_MS = 600_000
"""Between two pieces of a reply that is not to end before the server does."""


def write_script(folder: Path, *steps: Step) -> None:
    (folder / "script.yaml").write_text(json.dumps(steps))


@contextmanager
def serving(folder: Path, *more: str) -> Generator[tuple[subprocess.Popen[str], str, str]]:
    """The process, its address and its token."""
    command = [sys.executable, "-m", "timeloom", "serve", "--port", "0", "--title-model", "none", *more]
    command += ["--data-dir", str(folder / "data"), "--model", f"script:{folder / 'script.yaml'}"]
    environ = os.environ | {"PYTHONUNBUFFERED": "1"}
    with (
        (folder / "log").open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ) as process,
    ):
        assert process.stdout is not None
        try:
            address = process.stdout.readline().removeprefix("serving on ").strip()
            token = process.stdout.readline().removeprefix("token: ").strip()
            yield process, address, token
        finally:
            process.kill()


async def left_open(folder: Path) -> list[ConversationId]:
    async with await SqliteStore.open(folder / "data") as store:
        return await store.open_turns()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_in_the_middle_of_a_turn_leaves_no_hole(tmp_path: Path, number: signal.Signals) -> None:
    first, second, third = WRITES
    # However slow the listener is, the turn is in its third round when the first server ends; the second one gets on.
    write_script(
        tmp_path, slow_reply(first, delay_ms=5), slow_reply(second, delay_ms=5), slow_reply(third, delay_ms=UNENDING_MS)
    )
    held: list[tuple[int, object]] = []

    async def listen(address: str, token: str, conversation: str, *, most: int) -> str:
        """Takes in blocks until there are so many, or until the turn has ended."""
        async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE_S) as http:
            client = ApiClient(http, token)
            conversation = conversation or str((await client.send_message("go"))["conversation_id"])
            async with client.stream_conversation(conversation, held[-1][0] if held else 0) as events:
                async for frame in events:
                    held.extend(blocks_in([frame]))
                    if len(held) >= most or frame.event == "chat.complete":
                        break
            if most > 1000:
                await client.wait_for_state(conversation, "idle")
                blocks = await client.blocks(conversation)
                assert held == number_blocks(blocks)[: len(held)]
                assert [block["type"] for block in blocks].count("turn.header") == 1
                assert "Done." in [block.get("text") for block in blocks]
        return conversation

    with serving(tmp_path) as (process, address, token):
        conversation = asyncio.run(listen(address, token, "", most=12))
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == (0 if number == signal.SIGTERM else -number)
    assert len(held) == 12
    assert asyncio.run(left_open(tmp_path)) == [conversation]
    write_script(
        tmp_path,
        slow_reply(first, delay_ms=20),
        slow_reply(second, delay_ms=20),
        slow_reply(third, delay_ms=5),
        slow_reply(answers("Done."), delay_ms=10),
    )
    with serving(tmp_path) as (process, address, token):
        asyncio.run(listen(address, token, conversation, most=10_000))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    for line in (tmp_path / "log").read_text().splitlines():
        assert json.loads(line)["level"] == "info"


def test_a_stream_ends_with_a_word_when_the_server_leaves(tmp_path: Path) -> None:
    write_script(tmp_path, slow_reply(answers("A long answer."), delay_ms=UNENDING_MS))

    async def listen(process: subprocess.Popen[str], address: str, token: str) -> None:
        async with (
            httpx2.AsyncClient(base_url=address, timeout=PATIENCE_S) as http,
            ApiClient(http, token).post_and_stream("go") as events,
        ):
            heard = [await anext(events)]
            process.send_signal(signal.SIGTERM)
            heard += [frame async for frame in events]
        assert (heard[-1].event, heard[-1].data["code"]) == ("chat.error", "server_closing")

    with serving(tmp_path) as (process, address, token):
        asyncio.run(listen(process, address, token))
        assert process.wait(PATIENCE_S) == 0


def refusal(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", "serve", "--data-dir", str(folder / "data"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_what_cannot_be_served_safely_is_not_served(tmp_path: Path) -> None:
    write_script(tmp_path, {"reply": "x"})
    model = ("--model", f"script:{tmp_path / 'script.yaml'}")
    everybody = refusal(tmp_path, *model, "--host", "0.0.0.0")
    assert (everybody.returncode, "not a loopback address" in everybody.stderr) == (2, True)
    keyless = refusal(tmp_path, *model, "--mode", "tokens")
    assert (keyless.returncode, "needs --tokens-file" in keyless.stderr) == (2, True)
    (tmp_path / "keys.toml").write_text("keys = 3")
    broken = refusal(tmp_path, *model, "--mode", "tokens", "--tokens-file", str(tmp_path / "keys.toml"))
    assert (broken.returncode, "[config_unreadable]" in broken.stderr) == (1, True)
    with serving(tmp_path) as (_, address, _token):
        taken = refusal(tmp_path, *model, "--port", address.rpartition(":")[2])
        assert (taken.returncode, "choose another with --port" in taken.stderr) == (1, True)
