"""Builds the system text of a turn: the instructions, the tools and the deployment's own text."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.blocks.round import ReplyProtocol
from timeloom.core.blocks.tool_traits import resolve_traits
from timeloom.core.render.catalogue import CatalogueSkill, CatalogueTool
from timeloom.core.render.system import build_system_text as build_first_system_text
from timeloom.core.render.v2.system.configuration import SystemConfig
from timeloom.core.render.v2.system.examples import example_values
from timeloom.core.render.v2.system.sections import render_section
from timeloom.core.render.v2.system.text import SECTION_SEPARATOR
from timeloom.core.render.v2.system.text import build_system_text as build_second_system_text
from timeloom.core.stream.declared import NO_CHANNELS, DeclaredChannel
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.prompt.hashing import system_hash
from timeloom.runtime.prompt.instructions.load import load_instructions, load_sections
from timeloom.runtime.prompt.native_functions import NativeFunctions, make_native_functions, native_first_text
from timeloom.runtime.prompt.own_instructions import own_label

MAX_SYSTEM_TEXTS: Final = 32
"""System texts kept in memory. Clients choose output schemas, so more would let them fill the memory."""


class SystemText(msgspec.Struct, frozen=True):
    """A system text with its token estimate and hash; conversations with the same tools and settings share it.

    With native tool calling, the functions precede the text and count as a part of it.
    """

    text: str
    tokens: int
    hash: str
    sections: str = ""
    """The sections with their versions and the digest of own instructions, such as `agent.1 own.9f86d081884c7d65`."""
    native: NativeFunctions = NativeFunctions()


class SystemSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a system text besides the tools."""

    edition: int = 1
    protocol: ReplyProtocol = "channels"
    """How the model replies."""
    several_actions: bool = False
    instructions: str = ""
    """Instructions of this deployment, placed after the built-in ones."""
    skills: tuple[CatalogueSkill, ...] = ()
    output: str = ""
    """The JSON schema of the turn's answer; empty for plain text."""
    channels: tuple[DeclaredChannel, ...] = NO_CHANNELS
    """The channels that the turn declares beside the built-in ones."""


class SystemTexts:
    """The system texts of conversations with the same tools and settings.

    There is one for each edition, output schema and set of channels.
    """

    def __init__(self, tools: Sequence[ToolSpec], settings: SystemSettings) -> None:
        self._tools = tuple(tools)
        self._settings = settings
        self._texts: dict[tuple[int, str, str, tuple[DeclaredChannel, ...]], SystemText] = {}

    def get(
        self, edition: int, output: str = "", pinned: str = "", channels: tuple[DeclaredChannel, ...] = NO_CHANNELS
    ) -> SystemText:
        """Return the system text of turns of that edition, output schema and channels; it is built once.

        `pinned` is the list of functions that the conversation has pinned, where it differs from that of the tools.
        """
        key = edition, output, pinned, channels
        if key not in self._texts:
            if len(self._texts) >= MAX_SYSTEM_TEXTS:
                self._texts.pop(next(iter(self._texts)))
            settings = msgspec.structs.replace(self._settings, edition=edition, output=output, channels=channels)
            self._texts[key] = build_system_text(self._tools, settings, pinned)
        return self._texts[key]


def build_system_text(tools: Sequence[ToolSpec], settings: SystemSettings, pinned: str = "") -> SystemText:
    """Return the system text of turns with these tools; tools that a later edition introduced are left out.

    `pinned` is the list of functions that the conversation's first native call has recorded.
    """
    listed = [to_catalogue_tool(spec, settings.edition) for spec in tools if spec.edition <= settings.edition]
    native = make_native_functions(listed, pinned) if settings.protocol == "native" else NativeFunctions()
    if settings.edition == 1:
        text, sections = _with_output(_first_text(listed, settings, native), settings)
    else:
        config = SystemConfig(
            edition=settings.edition,
            tools=tuple(listed),
            skills=settings.skills,
            several_actions=settings.several_actions,
            protocol=settings.protocol,
            functions=native.tool_ids,
            output_schema=settings.output,
            channels=settings.channels,
        )
        built = build_second_system_text(load_sections(), config, bundle_text=settings.instructions)
        text, sections = built.text, built.labels
    whole = native.text + text
    labels = SECTION_SEPARATOR.join(label for label in (sections, own_label(settings.instructions)) if label)
    return SystemText(text, estimate_tokens(whole), system_hash(whole), labels, native)


def _with_output(text: str, settings: SystemSettings) -> tuple[str, str]:
    """Return the text of edition 1, which never changes, followed by the section on the output of edition 2."""
    if not settings.output:
        return text, ""
    config = SystemConfig(protocol=settings.protocol, output_schema=settings.output)
    section = next(one for one in load_sections() if one.name == "output")
    return f"{text}\n{render_section(section, config.facts(), example_values(config))}\n", section.label


def _first_text(tools: Sequence[CatalogueTool], settings: SystemSettings, native: NativeFunctions) -> str:
    if settings.protocol == "native":
        several, own = settings.several_actions, settings.instructions
        return native_first_text(tools, native, several_actions=several, instructions=own)
    return build_first_system_text(
        load_instructions(),
        tools,
        settings.skills,
        several_actions=settings.several_actions,
        bundle_text=settings.instructions,
    )


def to_catalogue_tool(spec: ToolSpec, edition: int = 1) -> CatalogueTool:
    """Return the tool as the catalogue of that edition lists it."""
    texts = spec.first_edition if edition == 1 and spec.first_edition else spec
    traits = resolve_traits(spec.tool_id, spec.traits)
    return CatalogueTool(
        tool_id=spec.tool_id,
        purpose=texts.purpose,
        description=texts.description,
        params_schema=texts.params_schema,
        effect=spec.effect,
        examples=texts.examples,
        runs_code=traits.runs_code,
        reads_paths=traits.numbers_lines,
        allows_answer=traits.allows_answer,
    )
