"""Builds the parameters of tool calls."""

import difflib
import re
from typing import Final, cast

import msgspec

from timeloom_local import grammar, prompts
from timeloom_local.engine import GenerationRequest
from timeloom_local.intents.wording import strip_politeness
from timeloom_local.prompt_content import PromptContent, PromptFile, split_path
from timeloom_local.read_catalogue import OfferedTool
from timeloom_local.reply import Slot, TextTemplate, Value
from timeloom_local.text_rules import find_quotations


def build_write_params(name: str, content: str) -> dict[str, Value]:
    """Parameters of `react.write` for a given text."""
    return {"path": workspace_path(name), "content": content}


def build_compose_params(name: str, subject: str) -> dict[str, Value]:
    """Parameters of `react.write` for a text that the model writes."""
    return {"path": workspace_path(name), "content": TextTemplate((compose(subject), "\n"))}


def compose(subject: str) -> Slot:
    """Return the slot of a text that the model writes about a subject."""
    generation = GenerationRequest(prompt=prompts.for_text(subject), grammar=grammar.prose(900), max_tokens=180)
    return Slot(generation=generation)


def build_patch_params(file: PromptFile, before: str, after: str, prompt: PromptContent) -> dict[str, Value]:
    """Parameters of `react.patch`: the diff between two texts of a file."""
    lines = difflib.unified_diff(_lines(before), _lines(after), "before", "after", n=2)
    path = file.relative if file.is_of(prompt.turn) else file.path
    return {"path": path, "patch": "".join(lines)}


def build_plan_params(steps: list[str]) -> dict[str, Value]:
    """Parameters of `react.plan` for a new plan."""
    return {"mode": "new", "steps": steps}


def build_search_params(words: str) -> dict[str, Value]:
    """Parameters of `react.rg` for words, from the beginning of a word on."""
    start = r"\b" if words[:1].isalnum() and words[:1].isascii() else ""
    return {"pattern": start + re.escape(words).replace("\\ ", " "), "ignore_case": True}


def build_name_params(name: str) -> dict[str, Value]:
    """Parameters of `react.rg` for a file of that name, in any folder."""
    return {"name": rf"(^|/){re.escape(name)}$", "ignore_case": True}


def build_other_params(tool: OfferedTool, message: str) -> dict[str, Value] | Slot:
    """Parameters of any other tool: a single text comes from the message, all else from the model by the schema."""
    schema = _ParameterSchema.read(tool.schema)
    required = [name for name in schema.required if name in schema.properties]
    if not required:
        return {}
    if len(required) == 1:
        kind = schema.properties[required[0]]
        text = (find_quotations(message) or [strip_politeness(message)])[0][:400]
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


def workspace_path(name: str) -> str:
    """Return the path of a file in the workspace of the current turn."""
    return name if name.startswith(("files/", "outputs/")) else f"files/{name}"


def physical_path(file: PromptFile) -> str:
    """Return the path of a file below OUT_DIR, where programs find it."""
    turn, relative = split_path(file.path)
    return f"{turn}/{relative.removeprefix('user.')}"


_MAX_STATUS_LINES: Final = 40


def read_printed(status: str) -> str:
    """Return what a program printed, from the report of its call."""
    _, _, printed = status.partition("\nPrinted")
    lines = printed.split("\n")[1:]
    shown = [line.removeprefix("|").removeprefix(" ") for line in lines if line.startswith("|")]
    return "\n".join(shown[:_MAX_STATUS_LINES])


class _ParameterSchema(msgspec.Struct):
    properties: dict[str, dict[str, object]] = {}
    required: list[str] = []

    @classmethod
    def read(cls, text: str) -> "_ParameterSchema":
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return cls()


def _lines(text: str) -> list[str]:
    """Split a text into lines that all end with a line feed."""
    return [f"{line}\n" for line in text.split("\n")[: -1 if text.endswith("\n") else None]]
