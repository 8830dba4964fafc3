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
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.facts import RoundFacts
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.section import join_sections
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.views import Views, fold
from timeloom.ports.model import ModelRequest, TextSegment
from timeloom.runtime.prompt.system_text import SystemSettings, SystemText, build_system_text
from timeloom.testing.conformance.cases import CaseScene, ConformanceCase
from timeloom.tools.react.toolset import react_tools

NOW: Final = "2026-02-09T02:14:32.000000Z"
EARLIER_TURN: Final = TurnId("turn_1770603200000_000001")
TURN: Final = TurnId("turn_1770603272000_000002")
ROUNDS: Final = 15


def build_request(
    case: ConformanceCase, scene: CaseScene, edition: int = 1, protocol: ReplyProtocol = "channels"
) -> ModelRequest:
    """Return the model request of that case in an edition of the prompt."""
    entries = _build_entries(case, scene, edition)
    views = fold(entries)
    view = PromptView.from_views(views, {entry.seq: entry for entry in entries if entry.seq in views.visible.shown})
    this = RoundFacts(iteration=2 if _has_earlier_round(case, scene) else 1, max_iterations=ROUNDS, now=NOW)
    segments = [TextSegment(segment.text) for segment in view.segments()]
    system = system_text(edition, protocol)
    return ModelRequest(
        system=system.text,
        tools=system.native.functions,
        segments=(*segments, TextSegment(_tail_text(this, views))),
        max_output_tokens=2_048,
        number=1 if _has_earlier_round(case, scene) else 0,
        opening=case.say,
    )


@cache
def tool_forms(edition: int = 1) -> dict[str, ToolForm]:
    """Return the tools of the system text by their ids."""
    specs = [tool.spec for tool in react_tools(text_version=edition)]
    return {spec.tool_id: ToolForm(spec.tool_id, spec.params_schema) for spec in specs}


@cache
def system_text(edition: int = 1, protocol: ReplyProtocol = "channels") -> SystemText:
    """Return the system text of every agent in that edition, with the react tools."""
    specs = [tool.spec for tool in react_tools(text_version=edition)]
    return build_system_text(specs, SystemSettings(edition=edition, protocol=protocol))


def _has_earlier_round(case: ConformanceCase, scene: CaseScene) -> bool:
    return bool(case.notice or scene.read or scene.write or scene.failed)


def _tail_text(this: RoundFacts, views: Views) -> str:
    renderer = renderer_for(views.turns.edition)
    sources = renderer.sources(views.sources.pool, views)
    return join_sections(renderer.current_turn(views), sources, renderer.announce(this, views))


def _build_entries(case: ConformanceCase, scene: CaseScene, edition: int) -> list[Entry]:
    drafts = [Draft(NO_TURN, NOW, ConversationStarted(tenant="check", project="check", user="check"))]
    if scene.files:
        drafts += [Draft(EARLIER_TURN, NOW, block) for block in _earlier_turn(scene, edition)]
    now: list[AnyBlock] = [TurnStarted(n=2 if scene.files else 1, edition=edition), UserPrompt(text=case.say)]
    for name, text in scene.attachments.items():
        now += _attachment_blocks(name, text)
    if _has_earlier_round(case, scene):
        now += [*_round_blocks(1), *_first_round_blocks(case, scene)]
    drafts += [Draft(TURN, NOW, block) for block in now]
    return [to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)]


def _earlier_turn(scene: CaseScene, edition: int) -> list[AnyBlock]:
    blocks: list[AnyBlock] = [TurnStarted(n=1, edition=edition), UserPrompt(text="Please keep these files for me.")]
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
