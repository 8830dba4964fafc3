"""Builds the parameters of tool calls from the user's message by rule, or leaves them to the model."""

import difflib
import re
from typing import Final, cast

import msgspec

from timeloom.core.blocks.tool_traits import find_builtin_traits
from timeloom_local import grammar, prompts
from timeloom_local.engine import GenerationRequest
from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.read_prompt import PromptContent, PromptFile
from timeloom_local.reply import Slot, TextTemplate, Value
from timeloom_local.text_rules import (
    find_file_names,
    find_list_items,
    find_literal_content,
    find_quotations,
    find_subject,
    is_question,
    make_file_stem,
)

PROGRAMS: Final = {
    "py": "Python", "js": "JavaScript", "ts": "TypeScript", "sh": "shell", "sql": "SQL", "html": "HTML", "css": "CSS",
    "c": "C", "go": "Go", "rs": "Rust", "java": "Java", "rb": "Ruby",
}  # fmt: skip
"""File extensions of programs, with the language."""


def build_write_params(message: str) -> dict[str, Value]:
    """Parameters of `react.write`: name and text from the message, or a text that the model writes."""
    names = find_file_names(message)
    name = names[0] if names else f"{make_file_stem(message)}.md"
    language = PROGRAMS.get(name.rpartition(".")[2].lower())
    if content := find_literal_content(message):
        return {
            "path": _workspace_path(name),
            "content": content if language is None or "\n" in content else content + "\n",
        }
    if language:
        generation = GenerationRequest(
            prompt=prompts.for_program(find_subject(message), language), grammar=grammar.program(700), max_tokens=160
        )
    else:
        generation = GenerationRequest(
            prompt=prompts.for_text(find_subject(message)), grammar=grammar.prose(900), max_tokens=180
        )
    return {"path": _workspace_path(name), "content": TextTemplate((Slot(generation=generation), "\n"))}


def build_read_params(files: list[PromptFile], names: list[str], prompt: PromptContent) -> dict[str, Value]:
    """Parameters of `react.read`: the given files; an unknown name is read at its expected path."""
    known = {file.name for file in files}
    unknown = [name for name in names if name.rpartition("/")[2] not in known]
    asked = [f"fi:{prompt.turn}.{_workspace_path(name)}" for name in unknown] if not files else []
    return {"paths": [*(file.path for file in files), *asked]}


def build_patch_params(file: PromptFile, before: str, after: str, prompt: PromptContent) -> dict[str, Value]:
    """Parameters of `react.patch`: the diff between two texts of a file."""
    lines = difflib.unified_diff(_lines(before), _lines(after), "before", "after", n=2)
    here = f"fi:{prompt.turn}."
    path = file.relative if file.path.startswith(here) else file.path
    return {"path": path, "patch": "".join(lines)}


def build_plan_params(message: str, steps: list[str] | None = None) -> dict[str, Value]:
    """Parameters of `react.plan`: the steps that the message lists, or steps that the model writes."""
    steps = steps or find_list_items(message)
    if steps:
        return {"mode": "new", "steps": [step[:200] for step in steps[:20]]}
    generation = GenerationRequest(
        prompt=prompts.for_steps(_GOAL.sub("", find_subject(message))),
        grammar=grammar.numbered_lines(3, 5, 60),
        max_tokens=120,
    )
    return {"mode": "new", "steps": Slot(generation=generation, form="lines")}


def build_close_params(message: str) -> dict[str, Value] | None:
    """Parameters of `react.plan` if the message closes the open plan; otherwise None."""
    return {"mode": "close"} if _CLOSES.search(message) else None


def build_search_params(message: str) -> dict[str, Value]:
    """Parameters of `react.rg`: the quoted text, or the object of the search."""
    if ending := _ENDING.search(message):
        word = str(ending[ending.lastindex or 0]).lower()
        return {"name": rf"\.{_ENDINGS.get(word, word)}$"}
    if _BY_NAME.search(message):
        return {"name": "|".join(map(re.escape, find_file_names(message))) or "."}
    if held := find_quotations(message):
        return {"pattern": re.escape(held[0]).replace("\\ ", " "), "ignore_case": True}
    for pattern in _SEARCH_OBJECTS:
        if found := pattern.search(message):
            return {"pattern": re.escape(found[1].strip(" ?.!,")).replace("\\ ", " "), "ignore_case": True}
    return {"name": "."}


def build_other_params(tool: OfferedTool, message: str) -> dict[str, Value] | Slot:
    """Parameters of any other tool: a single text comes from the message, all else from the model by the schema."""
    schema = _ParameterSchema.read(tool.schema)
    required = [name for name in schema.required if name in schema.properties]
    if not required:
        return {}
    if len(required) == 1:
        kind = schema.properties[required[0]]
        text = (find_quotations(message) or [find_subject(message)])[0][:400]
        if kind.get("type") == "string" and "enum" not in kind:
            return {required[0]: text}
        if kind.get("type") == "array" and cast("dict[str, object]", kind.get("items") or {}).get("type") == "string":
            return {required[0]: [text]}
    generation = GenerationRequest(
        prompt=prompts.for_parameters(message, tool.purpose, tool.examples),
        grammar=grammar.parameters(tool.schema),
        max_tokens=400,
    )
    return Slot(generation=generation, form="raw")


def build_program_slot(tool_id: str, message: str) -> Slot | None:
    """Return the slot for the program of an exec tool; None for other tools."""
    if not find_builtin_traits(tool_id).runs_code:
        return None
    generation = GenerationRequest(
        prompt=prompts.for_program(find_subject(message), "Python"), grammar=grammar.program(700), max_tokens=160
    )
    return Slot(generation=generation, form="raw")


def find_meant_files(message: str, prompt: PromptContent) -> list[PromptFile]:
    """Return the files that a message names (the newest of equal names), or without names the attached files."""
    found: dict[str, PromptFile] = {}
    for name in find_file_names(message):
        for file in reversed(prompt.files.values()):
            if (file.relative.endswith(f"/{name}") or file.name == name) and name not in found:
                found[name] = file
    if found or find_file_names(message):
        return list(found.values())
    attached = [file for file in prompt.files.values() if file.attached]
    return attached[-3:] if attached and (is_question(message) or _ATTACHED.search(message)) else []


def mentions_it(message: str) -> bool:
    """Return whether the message may refer to a file without its name, for example by `it`."""
    return bool(_IT.search(message))


def mentions_new_file(message: str) -> bool:
    """Return whether the message mentions a new file."""
    return bool(_SAYS_NEW.search(message))


def mentions_plan(message: str) -> bool:
    """Return whether the message mentions a plan."""
    return bool(_SAYS_PLAN.search(message))


def mentions_file(message: str) -> bool:
    """Return whether the message mentions files at all."""
    return bool(_SAYS_FILE.search(message))


def build_hide_params(prompt: PromptContent) -> dict[str, Value]:
    """Parameters of `react.hide`: the newest result of a call."""
    paths = [path for made in prompt.calls for path in made.paths] or [*prompt.files]
    return {"path": paths[-1] if paths else "", "replacement": "put out of sight because the user asked for it"}


def find_last_file(prompt: PromptContent) -> PromptFile | None:
    """Return the file that was last written or read, which `it` refers to."""
    return next((file for file in reversed(prompt.files.values()) if not file.attached), None)


class _ParameterSchema(msgspec.Struct):
    properties: dict[str, dict[str, object]] = {}
    required: list[str] = []

    @classmethod
    def read(cls, text: str) -> "_ParameterSchema":
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return cls()


def _workspace_path(name: str) -> str:
    return name if name.startswith(("files/", "outputs/")) else f"files/{name}"


def _lines(text: str) -> list[str]:
    """Split a text into lines that all end with a line feed."""
    return [f"{line}\n" for line in text.split("\n")[: -1 if text.endswith("\n") else None]]


UNKNOWN_EDIT: Final = (
    'the change is not said in a form that this demo model knows; try: replace "old" with "new" in NAME, '
    'add the line "text" to NAME, or delete the line about X from NAME'
)
"""The problem for an edit that no rule matches."""

_IT: Final = re.compile(r"\b(?:it|the file|the text|there|this|that file)\b", re.IGNORECASE)
_SAYS_NEW: Final = re.compile(r"\bnew (?:text )?(?:file|document)\b", re.IGNORECASE)
_SAYS_FILE: Final = re.compile(
    r"\b(?:files?|documents?|workspace|save|store|grep|rg|note down|folder)\b", re.IGNORECASE
)
_SAYS_PLAN: Final = re.compile(
    r"^(?:please |can you |could you |let's |help me ){0,3}plan\b|\b(?:an?|the)(?:\s\w{1,30})? plan\b|\bcheck-?list\b"
    r"|\bto-?\s?do list\b|\binto steps\b",
    re.IGNORECASE,
)
_CLOSES: Final = re.compile(r"\b(?:close|end|cancel|drop|abandon|finish)\s(?:the|my|this|our)\splan\b", re.IGNORECASE)
_ATTACHED: Final = re.compile(r"\b(?:attach|upload|document|the file|the text)", re.IGNORECASE)
_GOAL: Final = re.compile(
    r"^(?:(?:make|create|set up|draw up|open|write|give|need|want|i|let's|let us|help|us|me|a|an|the|my|new|short|plan"
    r"|checklist|to-do list|to do list|todo list|list|schedule|for|to|of|how|with|steps|step by step)\s+){1,10}",
    re.IGNORECASE,
)
_ENDING: Final = re.compile(
    r"end(?:s|ing)?\s(?:with|in|on)\s[\"'`]?\.?(\w{1,5})\b|\*\.(\w{1,5})|\b(python|json|markdown|text|csv) files",
    re.IGNORECASE,
)
_ENDINGS: Final = {"python": "py", "markdown": "md", "text": "txt"}
_BY_NAME: Final = re.compile(
    r"\b(?:what|list|show|which)\s(?:all\s|the\s|my\s){0,3}files\b(?!\s(?:that\s)?(?:mention|contain|with|have|say))"
    r"|\bnamed\b|\bfiles? called\b",
    re.IGNORECASE,
)
_OBJECT: Final = r"(\w[\w' -]{0,60}?)"
_END: Final = r"[?.!]{0,3}$"
_INSIDE: Final = rf"(?:\s(?:in|inside|within|through|across|among)\s.{{0,200}})?{_END}"
_SAID: Final = rf"(?:\s(?:mentioned|named|in|said|written|appear|occur|come|is|are|stand)\b.{{0,200}})?{_END}"
_SEARCH_OBJECTS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:word|words|text|name|phrase|term|string)\s{_OBJECT}{_SAID}",
        rf"\b(?:for|mentions?|contains?|containing|mentioning)\s(?:the\s|an?\s|all\s|any\s)?{_OBJECT}{_INSIDE}",
        rf"\bwhere\b.{{0,80}}?\b(?:is|are|do|does)\s(?:the\s|an?\s|i\s)?{_OBJECT}{_SAID}",
        rf"\b(?:grep|find|search|look for|locate)\s(?:for\s|the\s|all\s|every\s|any\s){{0,3}}{_OBJECT}{_INSIDE}",
    )
)
"""Patterns that find the object of a search."""
