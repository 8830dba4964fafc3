"""The instructions that a turn ran with, as its model calls recorded them, and those of a configuration."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from timeloom.core.blocks import ModelCalled
from timeloom.core.blocks.round import ReplyProtocol
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import Text
from timeloom.core.render.system import ORDER
from timeloom.core.render.v2.system.configuration import SystemConfig
from timeloom.core.render.v2.system.examples import example_values
from timeloom.core.render.v2.system.sections import render_section
from timeloom.core.render.v2.system.text import SECTION_SEPARATOR
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.store import Store
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.prompt.instructions.load import INSTRUCTIONS_VERSION, load_instructions, load_sections
from timeloom.runtime.prompt.own_instructions import OWN_HEADING, find_own_instructions, label_digest
from timeloom.runtime.prompt.system_text import SystemSettings, build_system_text, to_catalogue_tool
from timeloom.runtime.session.load_views import load_views

PAGE: Final = 500
_TITLES: Final = {"tools": "# Tools\n\n", "skills": "# Skills\n\n"}


class InstructionPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a system text: a section, the tools, the skills or the assistant's own instructions."""

    name: str
    version: str = ""
    """The version of a section, or the digest of own instructions."""
    when: str = ""
    """The condition of a section."""
    tokens: int = 0
    stands: bool = True
    """Whether the part is in the text."""


class RecordedInstructions(msgspec.Struct, frozen=True, kw_only=True):
    """A system text of a turn; a turn has several only if it was resumed with other settings."""

    conversation: ConversationId
    turn: TurnId
    number: int
    path: str
    """The path of the first model call with this text."""
    model: str
    protocol: ReplyProtocol
    sections: tuple[str, ...]
    """The sections with their versions; empty for edition 1."""
    own: str
    """The digest of the assistant's own instructions; empty if there are none, or if the log is older."""
    sha256: str
    """The hash of the text."""
    tokens: int
    parts: tuple[InstructionPart, ...]
    """The parts by their headings."""
    text: str


def list_parts(tools: Sequence[ToolSpec], settings: SystemSettings) -> tuple[InstructionPart, ...]:
    """Return all parts of the system text of new turns with these tools and settings, with their tokens."""
    whole = build_system_text(tools, settings)
    if settings.edition == 1:
        parts = _first_parts(settings)
    else:
        listed = tuple(to_catalogue_tool(spec, settings.edition) for spec in tools if spec.edition <= settings.edition)
        config = SystemConfig(
            tools=listed,
            skills=settings.skills,
            several_actions=settings.several_actions,
            protocol=settings.protocol,
            functions=whole.native.tool_ids,
            output_schema=settings.output,
        )
        facts, values = config.facts(), example_values(config)
        parts = [
            InstructionPart(
                name=section.name,
                version=str(section.version),
                when=section.when,
                tokens=estimate_tokens(text) if text else 0,
                stands=bool(text),
            )
            for section in load_sections()
            for text in [render_section(section, facts, values)]
        ]
    if whole.native.text:
        parts.append(InstructionPart(name="functions", tokens=estimate_tokens(whole.native.text)))
    own = label_digest(whole.sections.split(SECTION_SEPARATOR))
    return (*parts, *_other_parts(whole.text, own))


async def load_turn_instructions(
    store: Store, conversation: ConversationId, turn: str | None
) -> list[RecordedInstructions]:
    """Return the system texts of the turn with that id, number or alias, or of the newest turn.

    Raises `entry_unknown` if there is no such turn, or if it has no model call.
    """
    views = await load_views(store, conversation)
    turns = views.turns.turns
    found = views.turns.newest if turn is None else views.turns.find_named(turn)
    if found is None or found not in turns:
        asked = f"no turn {turn[:60]!r}" if turn else "no turn"
        raise CodedError("entry_unknown", f"there is {asked}; number of turns: {len(turns)}")
    tenant = (await store.info(conversation)).tenant
    texts: dict[tuple[Text, str], RecordedInstructions] = {}
    async for called in _iter_calls(store, conversation, turns[found].spans):
        key = called.system, called.sections
        if key not in texts:
            text = await _read(store, tenant, called.system)
            functions = await _read(store, tenant, called.tools)
            texts[key] = _to_recorded(conversation, found, turns[found].n, called, text, functions)
    if not texts:
        raise CodedError("entry_unknown", f"turn {turns[found].n} has no model call")
    return list(texts.values())


async def _iter_calls(
    store: Store, conversation: ConversationId, spans: Sequence[tuple[int, int]]
) -> AsyncIterator[ModelCalled]:
    """Yield the decisions that the turn asked models for."""
    for first, last in spans:
        seq = first - 1
        while seq < last and (page := await store.load(conversation, after=seq, limit=min(PAGE, last - seq))):
            for entry in page:
                if isinstance(entry.block, ModelCalled) and entry.block.purpose == "decision":
                    yield entry.block
            seq = page[-1].seq


async def _read(store: Store, tenant: str, text: Text) -> str:
    return text if isinstance(text, str) else (await store.read_blob(tenant, text)).decode("utf-8", "replace")


def _to_recorded(
    conversation: ConversationId, turn: TurnId, number: int, called: ModelCalled, text: str, functions: str
) -> RecordedInstructions:
    labels = [label for label in called.sections.split(SECTION_SEPARATOR) if label]
    own = label_digest(labels)
    parts = [*_headed_parts(text, own), *_other_parts(text, own)]
    if functions:
        parts.append(InstructionPart(name="functions", tokens=estimate_tokens(functions)))
    return RecordedInstructions(
        conversation=conversation,
        turn=turn,
        number=number,
        path=called.path(turn),
        model=called.model,
        protocol=called.protocol,
        sections=tuple(label for label in labels if label_digest([label]) == ""),
        own=own,
        sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        tokens=estimate_tokens(functions + text),
        parts=tuple(parts),
        text=text,
    )


def _first_parts(settings: SystemSettings) -> list[InstructionPart]:
    actions = "several_actions" if settings.several_actions else "one_action"
    texts = load_instructions()
    return [
        InstructionPart(name=name, version=INSTRUCTIONS_VERSION, tokens=estimate_tokens(texts[name]))
        for name in (actions if name == "actions" else name for name in ORDER)
    ]


def _headed_parts(text: str, own: str) -> list[InstructionPart]:
    """Return the parts before the tools by their headings."""
    end = text.find(f"\n\n{_TITLES['tools']}")
    before = text[:end] if end >= 0 else text.partition(f"\n\n{OWN_HEADING}")[0] if own else text
    pieces = ("\n" + before).split("\n# ")
    return [
        InstructionPart(name=title.strip(), tokens=estimate_tokens(f"# {piece}"))
        for piece in pieces
        if (title := piece.partition("\n")[0]).strip()
    ]


def _other_parts(text: str, own: str) -> list[InstructionPart]:
    """Return the tools, the skills and the own instructions of a system text."""
    parts: list[InstructionPart] = []
    own_text = find_own_instructions(text, own) if own else ""
    rest = text.partition(f"\n\n{OWN_HEADING}{own_text}")[0] if own_text else text
    before_skills, mark, skills = rest.partition(f"\n\n{_TITLES['skills']}")
    _, found, tools = before_skills.partition(f"\n\n{_TITLES['tools']}")
    if found:
        parts.append(InstructionPart(name="tools", tokens=estimate_tokens(_TITLES["tools"] + tools)))
    if mark:
        parts.append(InstructionPart(name="skills", tokens=estimate_tokens(_TITLES["skills"] + skills)))
    if own:
        parts.append(InstructionPart(name="own", version=own, tokens=estimate_tokens(OWN_HEADING + own_text)))
    return parts
