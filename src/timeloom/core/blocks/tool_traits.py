"""Traits of tools: the facts about a tool that policies, views and rendering depend on.

A tool declares its traits in its spec, and a call records them if they differ from the built-in ones of its tool id.
Logs without recorded traits therefore keep their meaning.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

import msgspec

ResultText = Literal["foreign", "file", "own"]
"""The origin of the text in a tool's results: anywhere outside, files, or only the model itself."""


class ToolTraits(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Facts about one tool; the defaults describe a tool that brings text from outside and writes no files."""

    result_text: ResultText = "foreign"
    """The origin of the text in its results; gates use it to detect untrusted text."""
    reads_artifacts: bool = False
    """Whether its results show existing artifacts at their paths; such a result is not a new version."""
    numbers_lines: bool = False
    """Whether prompts number the lines of the files in its results, because the model requests lines by number."""
    lists_matches: bool = False
    """Whether its JSON results list found lines: rows with `logical_path` and `matches`."""
    copies_files: bool = False
    """Whether its JSON results list copied files: rows with `path` and `copied_from`."""
    brings_files: bool = False
    """Whether its JSON results list files for programs of the turn: `pulled`, rows with `path`."""
    path_param: str = ""
    """The parameter with the path of the file that it writes; empty if it has none."""
    content_param: str = ""
    """The parameter with the text that its files contain; empty if its files contain none of its parameters."""
    allows_answer: bool = False
    """Whether the model needs no result of it, so that a final answer may follow it in the same reply."""
    manages_plans: bool = False
    """Whether it starts, replaces or closes plans."""
    runs_code: bool = False
    """Whether it runs the program of the code channel."""
    polled: bool = False
    """Whether it is meant to be called again until its result changes, so that repeated calls are not stopped."""
    address_params: tuple[str, ...] = ()
    """Parameters with the web addresses that it requests; gates look at addresses that nobody wrote before."""
    asks_by_form: bool = False
    """Whether its parameters are a form, which a person answers by an event."""
    conversation_only: bool = False
    """Whether it reads and writes only the conversation and its files; re-runs then execute it again."""


CustomTraits = Mapping[str, ToolTraits]
"""Traits by tool id, of the tools whose traits differ from the built-in ones."""

NO_CUSTOM_TRAITS: Final[CustomTraits] = MappingProxyType({})


def resolve_traits(tool_id: str, traits: ToolTraits | None) -> ToolTraits:
    """Return the declared or recorded traits; without any, the built-in ones of the tool id."""
    return find_builtin_traits(tool_id) if traits is None else traits


@lru_cache(maxsize=256)
def find_builtin_traits(tool_id: str) -> ToolTraits:
    """Return the traits of that built-in tool or of its family; for all other ids, the defaults."""
    # Cached, because each call is looked up several times, and a conversation has few tools.
    known = _TRAITS_BY_ID.get(tool_id)
    if known is not None:
        return known
    family, dot, _ = tool_id.partition(".")
    return _TRAITS_BY_FAMILY.get(family + dot, _DEFAULT_TRAITS)


_DEFAULT_TRAITS: Final = ToolTraits()

_HIDE_TRAITS: Final = ToolTraits(result_text="own", allows_answer=True, conversation_only=True)

_TRAITS_BY_ID: Final = MappingProxyType(
    {
        "react.read": ToolTraits(result_text="file", reads_artifacts=True, numbers_lines=True, conversation_only=True),
        "react.rg": ToolTraits(result_text="file", lists_matches=True, conversation_only=True),
        "react.pull": ToolTraits(result_text="file", reads_artifacts=True, brings_files=True, conversation_only=True),
        "react.checkout": ToolTraits(result_text="file", copies_files=True, conversation_only=True),
        "react.write": ToolTraits(
            result_text="own",
            path_param="path",
            content_param="content",
            allows_answer=True,
            conversation_only=True,
        ),
        "react.patch": ToolTraits(
            result_text="file",
            copies_files=True,
            path_param="path",
            content_param="patch",
            conversation_only=True,
        ),
        "react.plan": ToolTraits(result_text="own", allows_answer=True, manages_plans=True, conversation_only=True),
        "web_tools.web_fetch": ToolTraits(address_params=("urls",)),
        "react.form": ToolTraits(result_text="own", allows_answer=True, asks_by_form=True, conversation_only=True),
        "react.hide": _HIDE_TRAITS,
        "react.memory_hide": _HIDE_TRAITS,
    }
)

_TRAITS_BY_FAMILY: Final = MappingProxyType(
    {"react.": ToolTraits(conversation_only=True), "exec_tools.": ToolTraits(runs_code=True)}
)
"""The traits of the other tools of a family; older logs contain ids of tools that no longer exist."""
