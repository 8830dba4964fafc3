"""A check for every sandbox: a program calls the tools of a bundle, which read its settings and secrets.

The program then searches all it can read for the secrets.
"""

from pathlib import Path

import msgspec
import pytest

from tests.harness.bundle_folder import write_package
from tests.harness.planted_search import search_program
from tests.harness.replies import calls
from tests.harness.workflow import WorkflowHarness
from timeloom import BaseWorkflow, Payload, ToolModule, ToolsDescriptor, ask_before
from timeloom.agent.answer import Answer
from timeloom.bundles.bundle import Bundle
from timeloom.core.blocks import ResultStatus, ToolCall
from timeloom.ports.sandbox import Sandbox
from timeloom.testing import says
from timeloom.tools.exec.tool import TOOL_ID, ExecTool

OWN = "planted secret of the bundle in a program"

CALLS = """
    io_tools.tool_call("shop.find", {"order": "A1"}),
    io_tools.tool_call("shop.sign", {}),
    io_tools.tool_call("shop.close", {}),
    __import__("shop").find(order="B2")
"""


class ShopSettings(msgspec.Struct, frozen=True):
    town: str = "Oslo"


class Shop(BaseWorkflow):
    """Runs an agent whose tools come from a descriptor."""

    async def run(self, payload: Payload) -> Answer[str] | str:
        found: dict[str, object] = {}
        descriptor = ToolsDescriptor(modules=(ToolModule(module="programs_pkg.tools", alias="shop"),))
        react = await self.build_react(scratchpad=found, tools_module=descriptor)
        await react.run(payload)
        return str(found)


async def check_bundle_programs(
    folder: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, *, isolated: bool = True
) -> None:
    """Run the check in that sandbox, which is closed afterwards; without isolation, there is no search."""
    write_package(folder, "programs_pkg", {}, monkeypatch)
    monkeypatch.setenv("PROGRAMS_TOKEN", OWN)
    code = search_program(CALLS, OWN) if isolated else f"print('answers', [{CALLS}])"
    program = f"<channel:code>{code}</channel:code>{calls(TOOL_ID, contract=[])}"
    stage = WorkflowHarness(folder, Shop, program, says("Done."))
    stage.bundle = Bundle(name="shop", workflow=Shop, settings=ShopSettings(), secrets={"token": "env:PROGRAMS_TOKEN"})
    stage.extra = (ExecTool(sandbox),)
    stage.allow_with(ask_before(["shop.close"]))
    try:
        async with stage.hub() as hub:
            name = await stage.say(hub)
    finally:
        await sandbox.close()
    blocks = await stage.blocks(name)
    report = "".join(str(one.text) for one in blocks if isinstance(one, ResultStatus) and not one.error)
    assert "'ret': 'order A1 in Oslo'" in report, report
    assert f"'ret': 'signed with {len(OWN)} characters'" in report, report
    assert "'code': 'gate_refused'" in report, report
    assert not isolated or "searched True" in report, report
    assert "FOUND" not in report, report
    made = [one.tool_id for one in blocks if isinstance(one, ToolCall) and one.by]
    assert made == ["shop.find", "shop.sign", "shop.close", "shop.find"]
    # The scratchpad of the turn is that of the workflow, also for calls that came from the sandbox.
    assert await stage.answers(name) == ["Done.", "{'found': 'B2'}"]
