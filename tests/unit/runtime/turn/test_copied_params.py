"""Parameters reach a tool without the escapes that the model copied from the prompt of its edition."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.harness.turn import TurnHarness, run
from timeloom.core.blocks import TurnStarted, UserPrompt
from timeloom.core.render.v1.entries.previews import preview_text
from timeloom.core.stream.decision import CallToolDecision
from timeloom.ports.tool import ToolContext
from timeloom.runtime.turn.execute_action import execute_action
from timeloom.tools.define import tool

ROWS = "~[x]\n~~[y]\n<~channel:code>"


@pytest.mark.parametrize(
    ("edition", "got"),
    [
        (1, ["~[x]\n~~[y]\n<channel:code>", "~[x]", "~[x]\n~~[y]\n<channel:code>"]),
        (2, ["[x]\n~[y]\n<channel:code>", "[x]", ROWS]),
    ],
)
def test_copied_escapes_are_undone_except_in_exact_parameters(tmp_path: Path, edition: int, got: list[str]) -> None:
    received: list[str] = []

    async def keep(context: ToolContext, text: str, rows: list[str], exact: str, size: int) -> str:
        """Keeps texts."""
        received.extend([text, *rows, exact])
        assert context.copies_from == edition
        return str(size)

    async def check() -> None:
        stage = TurnHarness(tmp_path)
        stage.extra = (tool("t.keep", effect="idempotent", exact_params=("exact",))(keep),)
        turns = await stage.open()
        turn = turns.session.new_turn_id()
        await turns.session.append([TurnStarted(n=1, edition=edition), UserPrompt(text="go")], turn)
        params = {"text": ROWS, "rows": ["~[x]"], "exact": ROWS, "size": 1}
        decision = CallToolDecision(tool_id="t.keep", params=msgspec.json.encode(params).decode())
        await execute_action(replace(turns.action_context, show=preview_text), decision, None)

    run(check)
    assert received == got


def test_calls_of_a_program_keep_their_text(tmp_path: Path) -> None:
    received: list[tuple[str, int]] = []

    async def keep(context: ToolContext, text: str) -> str:
        """Keeps a text."""
        received.append((text, context.copies_from))
        return "ok"

    async def nest(context: ToolContext) -> str:
        """Calls the other tool as a program does."""
        assert context.nested
        return await context.nested.call("t.keep", msgspec.json.encode({"text": ROWS}).decode())

    async def check() -> None:
        stage = TurnHarness(tmp_path)
        stage.extra = (tool("t.keep", effect="idempotent")(keep), tool("t.nest", effect="idempotent")(nest))
        turns = await stage.open()
        turn = turns.session.new_turn_id()
        await turns.session.append([TurnStarted(n=1, edition=2), UserPrompt(text="go")], turn)
        decision = CallToolDecision(tool_id="t.nest", params="{}")
        await execute_action(replace(turns.action_context, show=preview_text), decision, None)

    run(check)
    assert received == [(ROWS, 1)]
