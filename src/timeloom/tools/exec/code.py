"""Loads the program of a call, which the model wrote in the code channel."""

import re
from typing import Final

from timeloom.core.blocks import ToolCode
from timeloom.core.codes import CodedError
from timeloom.core.payload import BlobRef
from timeloom.core.render.copied_text import undo_escapes
from timeloom.ports.tool import ToolContext
from timeloom.tools.parameters import ParamsError

_FENCED: Final = re.compile(r"\s*```[\w+-]*[ \t]*\r?\n(.*)\r?\n```\s*", re.DOTALL)


async def load_code(context: ToolContext, most_bytes: int) -> str:
    """Return the program of the call; raise if it has none."""
    call = context.timeline.views.calls.get(context.turn_id, context.tool_call_id)
    entries = await context.timeline.entries([call.code_seq]) if call and call.code_seq else []
    for entry in entries:
        if isinstance(entry.block, ToolCode):
            text = entry.block.text
            code = (await context.timeline.payload(text)).decode() if isinstance(text, BlobRef) else text
            return _check_code(_strip_fence(undo_escapes(code, context.timeline.views.turns.edition)), most_bytes)
    raise _missing_code_error()


def _strip_fence(code: str) -> str:
    """Return the code without a Markdown fence around all of it."""
    fenced = _FENCED.fullmatch(code)
    return fenced[1] if fenced else code


def _check_code(code: str, most_bytes: int) -> str:
    size = len(code.encode("utf-8", "surrogatepass"))
    if size > most_bytes:
        raise ParamsError(f"a program has at most {most_bytes} bytes, got {size}; put data into files")
    if not code.strip():
        raise _missing_code_error()
    return code


def _missing_code_error() -> CodedError:
    message = "the call has no program: write it in <channel:code> beside the call; it is not a parameter"
    return CodedError("protocol_violation.code_missing", message)
