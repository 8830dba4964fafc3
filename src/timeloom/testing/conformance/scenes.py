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
from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.system import system
from timeloom.core.render.tail.announce import Round
from timeloom.core.render.tail.tail import tail_text
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.timeline import NO_TURN, Draft, Entry, place
from timeloom.core.view.views import fold
from timeloom.ports.model import ModelRequest, TextSegment
from timeloom.runtime.prompt.instructions.load import load_texts
from timeloom.testing.conformance.cases import Case, Scene
from timeloom.tools.react.toolset import react_tools

NOW: Final = "2026-02-09T02:14:32.000000Z"
BEFORE: Final = TurnId("turn_1770603200000_000001")
TURN: Final = TurnId("turn_1770603272000_000002")
ROUNDS: Final = 15


def request_of(case: Case, scene: Scene) -> ModelRequest:
    """Return the model request of that case."""
    entries = _entries(case, scene)
    views = fold(entries)
    view = PromptView.opened(views, {entry.seq: entry for entry in entries if entry.seq in views.visible.shown})
    this = Round(iteration=2 if _acted(case, scene) else 1, max_iterations=ROUNDS, now=NOW)
    segments = [TextSegment(segment.text) for segment in view.segments()]
    return ModelRequest(
        system=system_text(),
        segments=(*segments, TextSegment(tail_text(this, views))),
        max_output_tokens=2_048,
        number=1 if _acted(case, scene) else 0,
        opening=case.say,
    )


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
    return system(load_texts(), tools)


def _acted(case: Case, scene: Scene) -> bool:
    return bool(case.notice or scene.read or scene.write or scene.failed)


def _entries(case: Case, scene: Scene) -> list[Entry]:
    drafts = [Draft(NO_TURN, NOW, ConversationStarted(tenant="check", project="check", user="check"))]
    if scene.files:
        drafts += [Draft(BEFORE, NOW, block) for block in _earlier_turn(scene)]
    now: list[AnyBlock] = [TurnStarted(n=2 if scene.files else 1), UserPrompt(text=case.say)]
    for name, text in scene.attachments.items():
        now += _attached(name, text)
    if _acted(case, scene):
        now += [*_asked(1), *_first_round(case, scene)]
    drafts += [Draft(TURN, NOW, block) for block in now]
    return [place(draft, seq) for seq, draft in enumerate(drafts, 1)]


def _earlier_turn(scene: Scene) -> list[AnyBlock]:
    blocks: list[AnyBlock] = [TurnStarted(n=1), UserPrompt(text="Please keep these files for me.")]
    for n, (name, text) in enumerate(scene.files.items(), 1):
        blocks += [*_asked(n), *_write(BEFORE, CallId(f"a{n:011d}"), name, text)]
    return [*blocks, *_asked(len(scene.files) + 1), Completion(text="They are kept."), TurnEnded(reason="completed")]


def _asked(number: int) -> list[AnyBlock]:
    return [
        RoundStarted(round=number),
        ModelCalled(round=number, model="check", request_sha256="0" * 64),
        ModelAnswered(round=number, model="check", stop_reason="end"),
    ]


def _attached(name: str, text: str) -> list[AnyBlock]:
    path = f"fi:{TURN}.user.attachments/{name}"
    digest = Digest(artifact_path=path, mime="text/plain", size_bytes=len(text.encode()))
    lines = len(text.splitlines())
    return [
        AttachmentMeta(digest=digest, summary=f"a text of {lines} lines"),
        Attachment(artifact_path=path, mime="text/plain", text=text),
    ]


def _first_round(case: Case, scene: Scene) -> list[AnyBlock]:
    call = CallId("b00000000001")
    if case.notice:
        return [Notice(code=case.notice.code, text=case.notice.text)]
    if scene.write:
        return _write(TURN, call, scene.write.name, scene.write.text)
    if scene.failed:
        error = ToolError(code="tool_failed", message=scene.failed.message)
        digest = Digest(artifact_path=f"tc:{TURN}.{call}.result", error=error)
        return [
            ToolCall(tool_id=scene.failed.tool, tool_call_id=call, params=scene.failed.params),
            ResultDigest(tool_call_id=call, digest=digest),
        ]
    return _read(call, scene.read, scene.attachments[scene.read])


def _write(turn: TurnId, call: CallId, name: str, text: str) -> list[AnyBlock]:
    path, here = f"fi:{turn}.files/{name}", f"{turn}/files/{name}"
    digest = Digest(artifact_path=path, physical_path=here, mime="text/plain", kind="file", visibility="external")
    return [
        ToolCall(tool_id="react.write", tool_call_id=call, params=f'{{"path":"files/{name}"}}'),
        ResultDigest(tool_call_id=call, digest=digest),
        ResultContent(tool_call_id=call, artifact_path=path, mime="text/plain", text=text, digest=digest),
    ]


def _read(call: CallId, name: str, text: str) -> list[AnyBlock]:
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
