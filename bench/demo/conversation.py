"""Runs a request in a conversation of its own, with the real runtime, tools and sandbox."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from bench.demo.requests import DemoRequest
from timeloom.app import AgentSettings, build_turn_runner, open_session
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    PlanRecorded,
    ResultStatus,
    ToolCall,
    UserPrompt,
)
from timeloom.core.payload import BlobRef
from timeloom.ports.model import Model
from timeloom.providers.script import ScriptedModel
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.tools.registry import ToolRegistry

HEADER: Final = ConversationStarted(tenant="bench", project="demo", user="stranger")


class MadeCall(msgspec.Struct, frozen=True):
    """A tool call of the request's turn, and the text of its status."""

    tool_id: str
    params: str
    status: str = ""


class DemoOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request: how the turn ended, its calls, its answer and the newest content of each file."""

    ending: str
    calls: tuple[MadeCall, ...]
    answer: str
    files: Mapping[str, str]
    earlier: tuple[tuple[str, str], ...]
    """The earlier messages with their answers."""
    ticks_plan: bool = False
    """Whether the turn marked a step of the plan, which a model does by a mark in its notes."""


async def run_request(
    model: Model, request: DemoRequest, registry: ToolRegistry, folder: Path, edition: int = 1
) -> DemoOutcome:
    """Hold the conversation of a request in a new data folder and that edition, and return its outcome."""
    session = await open_session(MemoryStore(), None, HEADER)
    settings = AgentSettings(data_dir=folder, edition=edition)
    try:
        await _write_files(session, request.files, settings, registry)
        turns = build_turn_runner(session, model, settings, lambda _: None, registry)
        earlier: list[tuple[str, str]] = []
        for message in request.conversation:
            await turns.run(message)
            earlier.append((message, _find_answer(await _load_blocks(session, 0))))
        before = session.views.tail
        files = [IncomingFile(name=name, mime="text/plain", text=text) for name, text in request.attachments.items()]
        await turns.open_turn(UserPrompt(text=request.request), files)
        ending = await turns.resume()
        blocks = await _load_blocks(session, before)
        return DemoOutcome(
            ending=ending,
            calls=_collect_calls(blocks),
            answer=_find_answer(blocks),
            files=_newest_files(settings.workspaces / session.conversation),
            earlier=tuple(earlier),
            ticks_plan=any(isinstance(block, PlanRecorded) and block.change == "progress" for block in blocks),
        )
    finally:
        await session.close()


async def _write_files(
    session: Session, files: Mapping[str, str], settings: AgentSettings, registry: ToolRegistry
) -> None:
    """Write the files in a turn before the conversation, as an assistant that was asked for them."""
    if not files:
        return
    replies = [_decision({"action": "call_tool", "tool_call": _write_call(name, text)}) for name, text in files.items()]
    replies.append(_decision({"action": "complete", "final_answer": "Done."}))
    scripted = ScriptedModel.from_text(json.dumps([{"reply": reply} for reply in replies]))
    turns: TurnRunner = build_turn_runner(session, scripted, settings, lambda _: None, registry)
    await turns.run("Please keep these files for me.")


def _write_call(name: str, text: str) -> dict[str, object]:
    return {"tool_id": "react.write", "params": {"path": f"files/{name}", "content": text}}


def _decision(decision: Mapping[str, object]) -> str:
    return f"<channel:ReactDecisionOutV2>{json.dumps({'notes': '', **decision})}</channel:ReactDecisionOutV2>"


async def _load_blocks(session: Session, after: int) -> list[AnyBlock]:
    return [entry.block for entry in await session.entries(range(after + 1, session.views.tail + 1))]


def _find_answer(blocks: list[AnyBlock]) -> str:
    return next((_plain(block.text) for block in reversed(blocks) if isinstance(block, Completion)), "")


def _collect_calls(blocks: list[AnyBlock]) -> tuple[MadeCall, ...]:
    statuses = {block.tool_call_id: _plain(block.text) for block in blocks if isinstance(block, ResultStatus)}
    return tuple(
        MadeCall(block.tool_id, _plain(block.params), statuses.get(block.tool_call_id, ""))
        for block in blocks
        if isinstance(block, ToolCall)
    )


def _plain(text: str | BlobRef) -> str:
    return text if isinstance(text, str) else f"({text.size_bytes} bytes)"


def _newest_files(workspace: Path) -> dict[str, str]:
    """Return the newest content of each file; turn ids sort by time."""
    found: dict[str, str] = {}
    for turn in sorted(workspace.glob("turn_*")):
        for file in sorted((turn / "files").rglob("*")):
            if file.is_file() and not file.name.startswith(".part-"):
                found[str(file.relative_to(turn / "files"))] = file.read_text(encoding="utf-8", errors="replace")
    return found
