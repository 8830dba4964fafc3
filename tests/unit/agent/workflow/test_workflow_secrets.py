"""A workflow that leaks its secrets in every way: no byte of them is stored, asked, streamed or logged."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from tests.harness.exec import PlainSandbox
from tests.harness.replies import calls
from tests.harness.turn import run
from tests.harness.workflow import WorkflowHarness
from timeloom import BaseWorkflow, Payload, get_secret
from timeloom.agent.answer import Answer
from timeloom.bundles.bundle import Bundle
from timeloom.runtime.read.export import export_timeline
from timeloom.testing import call, says
from timeloom.tools.exec.tool import TOOL_ID, ExecTool

OWN, SHARED = "own planted secret of the bundle", "shared planted secret of the server"


def leak() -> str:
    return f"{get_secret('b:token').reveal()} / {get_secret('mail').reveal()}"


class Leaky(BaseWorkflow):
    """Puts its secrets everywhere; `ending` chooses how it ends."""

    ending: ClassVar[str] = "text"

    async def pre_run_hook(self, payload: Payload) -> None:
        if self.ending == "hook":
            raise RuntimeError(leak())

    async def run(self, payload: Payload) -> str:
        react = await self.build_react(knowledge_space_fn=self.search, knowledge_read_fn=self.read)
        self.emit("timeline_text", leak())
        await react.run(payload)
        await react.run(payload, note=f"Use {leak()}.")
        await self.feedback(text=leak())
        if self.ending == "error":
            raise RuntimeError(leak())
        return f"The secrets are {leak()}."

    def search(self, query: str, limit: int) -> list[str]:
        if query == "raise":
            raise RuntimeError(leak())
        return [leak()] * limit

    def read(self, path: str) -> str:
        return f"{path} {leak()}"

    async def post_run_hook(self, payload: Payload, answer: Answer[str]) -> None:
        raise RuntimeError(leak())


PROGRAM = """
print(context_tools.fetch_ctx("ks:a"))
print(io_tools.tool_call("react.search_knowledge", {"query": "a"}))
"""


@pytest.mark.parametrize("ending", ["text", "error", "hook"])
def test_no_secret_of_a_bundle_leaves_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", OWN)
    monkeypatch.setenv("MAIL_TOKEN", SHARED)
    monkeypatch.setattr(Leaky, "ending", ending)

    async def check() -> None:
        program = f"<channel:code>{PROGRAM}</channel:code>{calls(TOOL_ID, contract=[])}"
        searches = [call("react.search_knowledge", query=one) for one in ("a", "raise")]
        read = call("react.read", paths=["ks:a"])
        stage = WorkflowHarness(tmp_path, Leaky, *searches, read, program, says("One."), says("Two."))
        stage.bundle = Bundle(name="shop", workflow=Leaky, secrets={"token": "env:SHOP_TOKEN"})
        stage.setting = msgspec.structs.replace(stage.setting, secrets={"mail": "env:MAIL_TOKEN"})
        stage.extra = (ExecTool(PlainSandbox()),)
        async with stage.hub() as hub:
            name = await stage.say(hub)
        stored = b"".join([piece async for piece in export_timeline(stage.store, name)]).decode()
        assert stored.count("[secret]") >= (1 if ending == "hook" else 10)
        where: dict[str, Callable[[], object]] = {
            "the timeline": lambda: stored,
            "a prompt": lambda: stage.recorder.prompts,
            "a delta": lambda: stage.deltas,
            "a fault": lambda: stage.faults,
            "the log": lambda: [(one.getMessage(), one.exc_text, one.exc_info) for one in caplog.records],
        }
        for place, read_all in where.items():
            text = str(read_all())
            assert OWN not in text, place
            assert SHARED not in text, place

    with caplog.at_level(logging.DEBUG, "timeloom"):
        run(check)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or OWN.encode() not in file.read_bytes()
