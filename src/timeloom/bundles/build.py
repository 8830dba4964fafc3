"""Builds the bundle that a `bundle.toml` describes: imports its tools, classes and functions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import fields

from timeloom.bundles.bundle import Bundle, BundleChannel, BundleWidget
from timeloom.bundles.bundle_file import BundleTable, ReactTable, check_keys, convert, error_at
from timeloom.bundles.context import BundleContext
from timeloom.bundles.descriptors.find_module import ModuleOwner
from timeloom.bundles.descriptors.load_tools import load_toolset
from timeloom.bundles.descriptors.read_module import read_skills_module, read_tools_module
from timeloom.bundles.descriptors.skills import SkillsDescriptor
from timeloom.bundles.descriptors.tools import ALL, ToolsDescriptor
from timeloom.bundles.fault import to_bundle_error
from timeloom.bundles.loaded_bundle import LoadedBundle, check_bundle
from timeloom.bundles.missing_parts import find_missing_parts
from timeloom.bundles.modules import BundleModules
from timeloom.core.policy.gates import Policy, ask_before, calls_per_turn, only_tools, refuse_tools
from timeloom.core.stream.declared import DeclaredChannel
from timeloom.platform.secrets import SecretError, parse_reference
from timeloom.platform.toml_document import TomlDocument, TomlError, read_toml_text
from timeloom.platform.toml_lines import KeyPath
from timeloom.ports.tool import Tool
from timeloom.tools.installed import load_installed_tools, to_tools
from timeloom.tools.registry import ToolRegistry

R = TypeVar("R")

MAX_TEXT_BYTES: Final = 1024 * 1024
"""Largest file with instructions or a widget. Less refuses widgets with a library in them; more fills the memory."""


def build_bundle(table: BundleTable, document: TomlDocument, modules: BundleModules) -> LoadedBundle:
    """Return the bundle that the file describes."""
    reader = _Reader(document, modules)
    folder = modules.folder
    tools, skills = reader.descriptors(table)
    loaded = check_bundle(_make_bundle(table, reader, folder, tools))
    missing = find_missing_parts(table.name, tools.descriptor, skills)
    return replace(loaded, folder=folder, missing=(*loaded.missing, *missing))


def _make_bundle(table: BundleTable, reader: "_Reader", folder: Path, described: "_DescribedTools") -> Bundle:
    return Bundle(
        name=table.name,
        title=table.title,
        description=table.description,
        tools=(*reader.tools(table.tools), *described.tools),
        allowed_tools=described.descriptor.allowed if described.descriptor else ALL,
        instructions=reader.text(("instructions_file",), table.instructions_file) or table.instructions,
        policies=tuple(reader.policies(table)),
        max_iterations=reader.rounds(table),
        output=reader.kind(("output",), table.output),
        settings=reader.settings(table),
        secrets={name: reader.secret(name, text) for name, text in table.secrets.items()},
        channels={name: reader.channel(name, table) for name in table.channels},
        widgets={
            name: BundleWidget(html=reader.text(("widgets", name, "file"), one.file) or one.html, title=one.title)
            for name, one in table.widgets.items()
        },
        workflow=reader.kind(("workflow",), table.workflow),
        skills=tuple(str(folder / one) for one in table.skills),
        knowledge=tuple(str(folder / one) for one in table.knowledge),
        mcp_servers=table.mcp_servers,
        react=table.react.tools if isinstance(table.react, ReactTable) else table.react,
    )


class _DescribedTools(NamedTuple):
    """A tools descriptor with its tools."""

    descriptor: ToolsDescriptor | None
    tools: tuple[Tool, ...]


class _Reader:
    """Turns the texts of a `bundle.toml` into objects; each error names the line of the key."""

    def __init__(self, document: TomlDocument, modules: BundleModules) -> None:
        self._document = document
        self._modules = modules

    def tools(self, names: Iterable[str]) -> Iterable[Tool]:
        for name in names:
            yield from self._at(("tools",), lambda name=name: self._load_tools(name))

    def channel(self, name: str, table: BundleTable) -> BundleChannel:
        """Return the channel of that name; raises at its line if the model may not have it or its widget is unknown."""
        one = table.channels[name]
        self._at(("channels", name), lambda: DeclaredChannel(name=name, mime=one.mime, purpose=one.purpose))
        if one.widget and one.widget not in table.widgets:
            known = ", ".join(sorted(table.widgets)) or "none"
            path = ("channels", name, "widget")
            detail = f"a channel names the widget {one.widget[:60]!r}; the widgets of the bundle are {known}"
            raise error_at(self._document, path, detail)
        return BundleChannel(mime=one.mime, purpose=one.purpose, widget=one.widget)

    def descriptors(self, table: BundleTable) -> "tuple[_DescribedTools, SkillsDescriptor | None]":
        """Return the descriptors that the file names, and the tools of the first one."""
        skills = self._at(("skills_descriptor",), lambda: self._read(table.skills_descriptor, read_skills_module))
        return self._at(("tools_descriptor",), lambda: self._load_descriptor(table)), skills

    def policies(self, table: BundleTable) -> Iterable[Policy]:
        rules = table.policies
        if rules.only_tools is not None:
            yield only_tools(rules.only_tools)
        if rules.refuse:
            yield refuse_tools(rules.refuse)
        if rules.calls_per_turn:
            yield calls_per_turn(rules.calls_per_turn)
        if rules.ask_before:
            yield ask_before(rules.ask_before)
        for name in rules.functions:
            path = ("policies", "functions")
            found = self._at(path, lambda name=name: self._modules.resolve(name))
            if not callable(found):
                raise error_at(self._document, path, f"{name[:80]} is no function")
            yield cast(Policy, found)

    def rounds(self, table: BundleTable) -> int | None:
        """Return the rounds of a turn; the key may have one of three names."""
        react = table.react.max_iterations if isinstance(table.react, ReactTable) else None
        return next(
            (one for one in (table.max_iterations, table.config.react.max_iterations, react) if one is not None), None
        )

    def settings(self, table: BundleTable) -> msgspec.Struct | None:
        """Return the settings with their values; without a type, each has the type of its value."""
        path = ("settings",)
        if not table.settings_type:
            return _untyped_settings(self._document, table.settings) if table.settings else None
        kind = self.kind(("settings_type",), table.settings_type)
        if kind is None or not issubclass(kind, msgspec.Struct):
            raise error_at(
                self._document, ("settings_type",), f"{table.settings_type} must be a subclass of msgspec.Struct"
            )
        self._check_settings(path, table.settings, kind)
        return convert(self._document, path, table.settings, kind)

    def kind(self, path: KeyPath, reference: str) -> type | None:
        """Return the class that a reference names; None without one."""
        if not reference:
            return None
        found = self._at(path, lambda: self._modules.resolve(reference))
        if not isinstance(found, type):
            raise error_at(self._document, path, f"{reference[:80]} is no class")
        return found

    def secret(self, name: str, text: str) -> str:
        try:
            return str(parse_reference(text).anchored(self._modules.folder))
        except SecretError as error:
            raise error_at(self._document, ("secrets", name), f"`secrets.{name[:60]}`: {error}") from error

    def text(self, path: KeyPath, name: str) -> str:
        """Return the text of a file of the bundle; empty without one."""
        if not name:
            return ""
        file = (self._modules.folder / name).resolve()
        if not file.is_relative_to(self._modules.folder.resolve()):
            raise error_at(self._document, path, f"`{'.'.join(path)}` must be a file in the folder of the bundle")
        try:
            return read_toml_text(file, MAX_TEXT_BYTES, regular=True)
        except TomlError as error:
            raise error_at(self._document, path, f"`{'.'.join(path)}`: {error}") from error

    def _load_descriptor(self, table: BundleTable) -> _DescribedTools:
        descriptor = self._read(table.tools_descriptor, read_tools_module)
        if descriptor is None:
            return _DescribedTools(None, ())
        owner = ModuleOwner(module=self._modules.import_module(table.tools_descriptor).__name__, bundle=table.name)
        # Tools of the program are not known here: `allowed` is applied to them when the parts of the bundle are built.
        every = replace(descriptor, allowed=ALL)
        context = BundleContext(bundle=table.name)
        return _DescribedTools(descriptor, tuple(load_toolset(every, ToolRegistry(), owner, context)))

    def _read(self, name: str, read: Callable[[ModuleType], R]) -> R | None:
        return read(self._modules.import_module(name)) if name else None

    def _load_tools(self, name: str) -> tuple[Tool, ...]:
        return to_tools(self._modules.resolve(name), name) if ":" in name else load_installed_tools([name])

    def _check_settings(self, path: KeyPath, table: Mapping[str, object], kind: type[msgspec.Struct]) -> None:
        known = {one.encode_name: one.type for one in fields(kind)}
        check_keys(self._document, path, table, known)
        for name, value in table.items():
            inner = known[name]
            if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                self._check_settings((*path, name), cast("dict[str, object]", value), inner)

    def _at(self, path: KeyPath, load: Callable[[], R]) -> R:
        """Return the loaded value; an error without a place of its own gets the line of the key."""
        try:
            return load()
        except Exception as error:
            found = to_bundle_error(error, self._modules.folder)
            if found.file:
                raise found from error
            raise error_at(self._document, path, found.reason) from error


def _untyped_settings(document: TomlDocument, values: Mapping[str, object]) -> msgspec.Struct:
    for name in values:
        if not name.isidentifier():
            raise error_at(document, ("settings", name), f"the name of a setting is a Python name, got {name[:60]!a}")
    return msgspec.defstruct("Settings", [(name, object) for name in values], frozen=True, kw_only=True)(**values)
