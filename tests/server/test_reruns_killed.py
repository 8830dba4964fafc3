"""A server that is killed in the middle of a re-run: the next one ends its turn, and runs and asks nothing for it."""

import asyncio
import json
import signal
from pathlib import Path

import httpx2
import msgspec
import pytest

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import LIST, ApiClient, Json, calls, repeated_reply
from tests.server.test_restart import PATIENCE_S, UNENDING_MS, serving, write_script
from timeloom.runtime.session.resume import RERUN_STOPPED_TEXT
from timeloom.server.routes.reruns import ForkComparison

WRITE, OTHER = (calls("react.write", path="a.md", content=text) for text in ("as recorded", "as run again"))


def test_a_rerun_that_is_killed_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMELOOM_SERVER_MODELS", f"script:{tmp_path / 'other' / 'script.yaml'}")
    # Whoever asks for a title as a conversation is left does so at once.
    monkeypatch.setenv("TIMELOOM_SERVER_REST_S", "0.1")
    write_script(tmp_path, {"reply": WRITE}, {"reply": answers("At nine.")})
    slow = [{"reply": OTHER}, slow_reply(answers("Never."), delay_ms=UNENDING_MS)]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "script.yaml").write_text(json.dumps(slow))

    async def begin(address: str, token: str) -> tuple[str, list[Json]]:
        """Return the fork and its entries at the second request to its model."""
        async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE_S) as http:
            ann = ApiClient(http, token)
            source = str((await ann.send_message("When do ferries leave?"))["conversation_id"])
            await ann.wait_for_state(source, "idle")
            asked = await ann.post(f"{LIST}/{source}/rerun", {"seq": 4, "model": "script:other/script.yaml"})
            fork = str(asked.json()["conversation_id"])
            while True:
                blocks = await ann.blocks(fork)
                if len([block for block in blocks if block["type"] == "react.model.call"]) == 2:
                    return fork, blocks
                await asyncio.sleep(0.01)

    async def find(address: str, token: str, fork: str, before: list[Json]) -> None:
        async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE_S) as http:
            ann = ApiClient(http, token)
            await ann.wait_for_state(fork, "idle")
            blocks = await ann.blocks(fork)
            assert blocks[: len(before)] == before
            end, *title = blocks[len(before) :]
            assert (end["type"], end["text"], end["meta"]) == (
                "react.turn.end",
                RERUN_STOPPED_TEXT,
                {"reason": "cancelled"},
            )
            assert [block["type"] for block in title] == ["conv.title"]
            got = await ann.get(f"{LIST}/{fork}/comparison")
            comparison = msgspec.json.decode(got.content, type=ForkComparison).comparison
            assert comparison.rerun_models == ("script:other/script.yaml",)
            (turn,) = comparison.turns
            assert (turn.recorded_end, turn.rerun_end, turn.rerun_end_text) == (
                "completed",
                "cancelled",
                RERUN_STOPPED_TEXT,
            )
            assert [pair.verdict for pair in turn.rounds] == ["differs", "differs"]
            # It is a conversation like any other, and goes on with the server's own model when somebody speaks.
            said = await ann.send_message("And now?", fork)
            assert said["status"] == "started"
            await ann.wait_for_state(fork, "idle")
            spoken = await ann.blocks(fork)
            assert [block for block in spoken[len(blocks) :] if block["type"] == "react.model.call"]

    with serving(tmp_path) as (process, address, token):
        fork, before = asyncio.run(begin(address, token))
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    # All of these would be asked or called, if anybody went on.
    title = repeated_reply("A title") | {"when": "title"}
    write_script(tmp_path, {"reply": WRITE}, {"reply": WRITE}, repeated_reply(answers("Live.")), title)
    with serving(tmp_path, "--title-model", f"script:{tmp_path / 'script.yaml'}") as (process, address, token):
        asyncio.run(find(address, token, fork, before))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
