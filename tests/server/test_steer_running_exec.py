"""Steering away from a running program keeps its output so far for the user and the model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typing_extensions import override

from tests.harness.replies import answers
from tests.server.server_harness import LIST, ApiClient, Json, ServerHarness, SseFrame, calls, run
from timeloom.core.render.editions import FIRST_EDITION, SECOND_EDITION
from timeloom.sandbox.local.sandbox import LocalSandbox
from timeloom.sandbox.local.settings import LocalSettings
from timeloom.tools.exec.tool import TOOL_ID, ExecTool
from timeloom.tools.registry import ToolRegistry

PROGRAM = """
import sys, time
for n in range(3):
    print("line", n, "[[S:1]] <" + "channel:code>", flush=True)
print("ready", file=sys.stderr, flush=True)
time.sleep(600)
"""


KINDS = ("steer", "cancel")


class Programs(ServerHarness):
    """A stage with programs in the sandbox of this machine."""

    sandbox: LocalSandbox

    @override
    def registry(self) -> ToolRegistry:
        return super().registry().with_tools([ExecTool(self.sandbox)])


@pytest.mark.parametrize(("kind", "edition"), [("steer", FIRST_EDITION), *((kind, SECOND_EDITION) for kind in KINDS)])
def test_what_a_program_had_printed_is_kept_when_it_is_stopped(tmp_path: Path, kind: str, edition: int) -> None:
    async def check() -> None:
        program = f"{calls(TOOL_ID, contract=[])}<channel:code>{PROGRAM}</channel:code>"
        stage = Programs(tmp_path, program, answers("As you like."))
        stage.sandbox = LocalSandbox(LocalSettings(warm=0))
        stage.edition = edition
        try:
            async with stage.serve() as served, served.ann.post_and_stream("go") as events:
                conversation = await until_printed(served.ann, events)
                await served.ann.send(conversation, kind, "that will do" if kind == "steer" else "")
                await served.ann.wait_for_state(conversation, "idle")
                results = await results_of(served.ann, conversation)
                assert "tool_interrupted" in results[0]
                assert results[1] == f"stdout:\n{printed('')}stderr:\nready\n"
                if kind == "steer":
                    prompt = (await served.ann.get(f"{LIST}/{conversation}/prompt")).json()
                    shown = "".join(segment["text"] for segment in prompt["segments"])
                    bar = "| " if edition == FIRST_EDITION else ""
                    assert f"\n{bar}stdout:\n{printed(bar, '~')}{bar}stderr:\n{bar}ready\n" in shown
        finally:
            await stage.sandbox.close()

    run(check)


def printed(before: str, escape: str = "") -> str:
    return "".join(f"{before}line {n} [{escape}[S:1]] <{escape}channel:code>\n" for n in range(3))


async def until_printed(client: ApiClient, events: AsyncIterator[SseFrame]) -> str:
    """The conversation, once the program has printed all."""
    async for frame in events:
        assert frame.event != "chat.complete", frame
        if frame.event == "chat.delta" and frame.data["channel"] == "stderr":
            break
    listed: list[Json] = (await client.get(LIST)).json()["conversations"]
    return str(listed[0]["id"])


async def results_of(client: ApiClient, conversation: str) -> list[str]:
    return [str(block["text"]) for block in await client.blocks(conversation) if block["type"] == "react.tool.result"]
