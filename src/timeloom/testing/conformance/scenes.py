"""Renders the prompt of a conformance case in the same way as the runtime."""

from functools import cache
from typing import Final

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    Completion,
    ConversationStarted,
    Digest,
    ModelAnswered,
    ModelCalled,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    ToolCall,
    ToolError,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.round import ReplyProtocol
from timeloom.core.ids import CallId, TurnId
from timeloom.core.policy.convert_params import ToolForm
from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.facts import RoundFacts
from timeloom.core.render.native_tools import NativeTool
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.system import build_system_text
from timeloom.core.render.v1.tail.tail import tail_text
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.views import fold
from timeloom.ports.model import ModelRequest, TextSegment
from timeloom.runtime.prompt.instructions.load import load_instructions
from timeloom.runtime.prompt.native_functions import build_native_functions
from timeloom.testing.conformance.cases import CaseScene, ConformanceCase
from timeloom.tools.react.toolset import react_tools

NOW: Final = "2026-02-09T02:14:32.000000Z"
EARLIER_TURN: Final = TurnId("turn_1770603200000_000001")
TURN: Final = TurnId("turn_1770603272000_000002")
ROUNDS: Final = 15


def build_request(case: ConformanceCase, scene: CaseScene, protocol: ReplyProtocol = "channels") -> ModelRequest:
    """Return the model request of that case."""
    entries = _build_entries(case, scene)
    views = fold(entries)
    view = PromptView.from_views(views, {entry.seq: entry for entry in entries if entry.seq in views.visible.shown})
    this = RoundFacts(iteration=2 if _has_earlier_round(case, scene) else 1, max_iterations=ROUNDS, now=NOW)
    segments = [TextSegment(segment.text) for segment in view.segments()]
    system, tools = _native_system() if protocol == "native" else (system_text(), ())
    return ModelRequest(
        system=system,
        tools=tools,
        segments=(*segments, TextSegment(tail_text(this, views))),
        max_output_tokens=2_048,
        number=1 if _has_earlier_round(case, scene) else 0,
        opening=case.say,
    )


@cache
def tool_forms() -> dict[str, ToolForm]:
    """Return the tools of the system text by their ids."""
    return {tool.spec.tool_id: ToolForm(tool.spec.tool_id, tool.spec.params_schema) for tool in react_tools()}


@cache
def _native_system() -> tuple[str, tuple[NativeTool, ...]]:
    text, native = build_native_functions([tool.spec for tool in react_tools()])
    return text, native.functions


@cache
def system_text() -> str:
    """Return the system text of every agent, with the catalogue of the react tools."""
    specs = [tool.spec for tool in react_tools()]
    tools = [
        CatalogueTool(
            tool_id=spec.tool_id,
            purpose=spec.purpose,
            description=spec.description,
            params_schema=spec.params_schema,
            effect=spec.effect,
            examples=spec.examples,
        )
        for spec in specs
    ]
    return build_system_text(load_instructions(), tools)


def _has_earlier_round(case: ConformanceCase, scene: CaseScene) -> bool:
    return bool(case.notice or scene.read or scene.write or scene.failed)


def _build_entries(case: ConformanceCase, scene: CaseScene) -> list[Entry]:
    drafts = [Draft(NO_TURN, NOW, ConversationStarted(tenant="check", project="check", user="check"))]
    if scene.files:
        drafts += [Draft(EARLIER_TURN, NOW, block) for block in _earlier_turn(scene)]
    now: list[AnyBlock] = [TurnStarted(n=2 if scene.files else 1), UserPrompt(text=case.say)]
    for name, text in scene.attachments.items():
        now += _attachment_blocks(name, text)
    if _has_earlier_round(case, scene):
        now += [*_round_blocks(1), *_first_round_blocks(case, scene)]
    drafts += [Draft(TURN, NOW, block) for block in now]
    return [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]


def _earlier_turn(scene: CaseScene) -> list[AnyBlock]:
    blocks: list[AnyBlock] = [TurnStarted(n=1), UserPrompt(text="Please keep these files for me.")]
    for n, (name, text) in enumerate(scene.files.items(), 1):
        blocks += [*_round_blocks(n), *_write_blocks(EARLIER_TURN, CallId(f"a{n:011d}"), name, text)]
    return [
        *blocks,
        *_round_blocks(len(scene.files) + 1),
        Completion(text="They are kept."),
        TurnEnded(reason="completed"),
    ]


def _round_blocks(number: int) -> list[AnyBlock]:
    return [
        RoundStarted(round=number),
        ModelCalled(round=number, model="check", request_sha256="0" * 64),
        ModelAnswered(round=number, model="check", stop_reason="end"),
    ]


def _attachment_blocks(name: str, text: str) -> list[AnyBlock]:
    path = f"fi:{TURN}.user.attachments/{name}"
    digest = Digest(artifact_path=path, mime="text/plain", size_bytes=len(text.encode()))
    lines = len(text.splitlines())
    return [
        AttachmentMeta(digest=digest, summary=f"a text of {lines} lines"),
        Attachment(artifact_path=path, mime="text/plain", text=text),
    ]


def _first_round_blocks(case: ConformanceCase, scene: CaseScene) -> list[AnyBlock]:
    call = CallId("b00000000001")
    if case.notice:
        return [Notice(code=case.notice.code, text=case.notice.text)]
    if scene.write:
        return _write_blocks(TURN, call, scene.write.name, scene.write.text)
    if scene.failed:
        error = ToolError(code="tool_failed", message=scene.failed.message)
        digest = Digest(artifact_path=f"tc:{TURN}.{call}.result", error=error)
        return [
            ToolCall(tool_id=scene.failed.tool, tool_call_id=call, params=scene.failed.params),
            ResultDigest(tool_call_id=call, digest=digest),
        ]
    return _read_blocks(call, scene.read, scene.attachments[scene.read])


def _write_blocks(turn: TurnId, call: CallId, name: str, text: str) -> list[AnyBlock]:
    path, here = f"fi:{turn}.files/{name}", f"{turn}/files/{name}"
    digest = Digest(artifact_path=path, physical_path=here, mime="text/plain", kind="file", visibility="external")
    return [
        ToolCall(tool_id="react.write", tool_call_id=call, params=f'{{"path":"files/{name}"}}'),
        ResultDigest(tool_call_id=call, digest=digest),
        ResultContent(tool_call_id=call, artifact_path=path, mime="text/plain", text=text, digest=digest),
    ]


def _read_blocks(call: CallId, name: str, text: str) -> list[AnyBlock]:
    path = f"fi:{TURN}.user.attachments/{name}"
    source = NewSource(
        title=name,
        artifact_path=path,
        physical_path=f"{TURN}/attachments/{name}",
        text=text,
        mime="text/plain",
        source_type="attachment",
    )
    digest = Digest(artifact_path=path, mime="text/plain")
    return [
        ToolCall(tool_id="react.read", tool_call_id=call, params=f'{{"paths":["{path}"]}}'),
        SourcesAdded(rows=SourcesPool().merge([source]).added, tool_call_id=call),
        ResultStatus(tool_call_id=call, text=f'{{"paths":["{path}"],"missing":[]}}'),
        ResultDigest(tool_call_id=call, digest=digest),
        ResultContent(tool_call_id=call, artifact_path=path, mime="text/plain", text=text, digest=digest),
    ]
