"""Converts the value that a tool's function returns to an `Outcome`.

An `Outcome` is used unchanged. Text and JSON values become an artifact at the call's result path. The envelope `{ok,
error, ret}` is opened: `ret` is the value, and `ok: false` sets the error. `outcome: "unknown"` beside it says that the
call may have had its effect. None gets a plain receipt. Numbers that JSON does not have become the texts `NaN`,
`Infinity` and `-Infinity`.
"""

import math
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ToolError
from timeloom.core.blocks.digest import OUTCOME, UNKNOWN_OUTCOME, with_unknown_outcome
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.tools.errors import strip_host_paths

_ENVELOPE: Final = frozenset({"ok", "error", "ret"})


def to_outcome(value: object, context: ToolContext) -> Outcome:
    """Return the outcome for a value; a value without a JSON form becomes an error and never raises."""
    if isinstance(value, Outcome):
        return value
    if isinstance(value, str):
        return _with_artifact(replace_lone_surrogates(value), "text/plain", context)
    try:
        plain = _to_plain_value(value)
        if _is_envelope(plain):
            return _open_envelope(cast(dict[str, object], plain), context)
        return _json_outcome(plain, context)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        kind = type(value).__name__
        message = f"the tool returned a {kind} without a JSON form; expected text, a JSON value or an Outcome: {error}"
        return Outcome(error=ToolError("tool_result_error", strip_host_paths(message, context.out_dir)))


def _to_plain_value(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes go into an Artifact")
    plain = msgspec.to_builtins(value, str_keys=True)
    # msgspec writes such numbers as null, so that most values need not be searched for them.
    return _name_non_finite(plain) if b"null" in msgspec.json.encode(plain) else plain


def _name_non_finite(value: object) -> object:
    """Return the value with `NaN`, `Infinity` and `-Infinity` as text, because JSON numbers cannot express them."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            fields = cast(dict[str, object], value)
            return {name: _name_non_finite(inner) for name, inner in fields.items()}
        case list() | tuple():
            return [_name_non_finite(inner) for inner in cast(list[object], value)]
        case _:
            return value


def _is_envelope(plain: object) -> bool:
    return isinstance(plain, dict) and isinstance(cast(dict[str, object], plain).get("ok"), bool)


def _open_envelope(envelope: dict[str, object], context: ToolContext) -> Outcome:
    is_unknown = not envelope["ok"] and UNKNOWN_OUTCOME in (envelope.get(OUTCOME), _outcome_in(envelope.get("error")))
    # An external tool may put its result beside `ok` instead of into `ret`.
    known = _ENVELOPE | {OUTCOME} if is_unknown else _ENVELOPE
    beside = {name: value for name, value in envelope.items() if name not in known}
    outcome = _json_outcome(envelope.get("ret", beside or None), context)
    if envelope["ok"]:
        return outcome
    error = _to_envelope_error(envelope.get("error"), context)
    error = with_unknown_outcome(error) if is_unknown else error
    return Outcome(artifacts=tuple(replace(one, error=error) for one in outcome.artifacts), error=error)


def _outcome_in(error: object) -> object:
    return cast(dict[str, object], error).get(OUTCOME) if isinstance(error, dict) else None


def _to_envelope_error(value: object, context: ToolContext) -> ToolError:
    """Return the envelope's error without `managed`, a field that is meant for the tool's host only."""
    fields = cast(dict[str, object], value) if isinstance(value, dict) else {"message": value}
    message = _to_safe_text(fields.get("message"), context) or "the tool reported a failure and gave no reason"
    details = fields.get("details")
    return ToolError(
        code=_to_safe_text(fields.get("code"), context) or "tool_call_error",
        message=message,
        where=_to_safe_text(fields.get("where"), context),
        details=_to_safe_details(cast(dict[str, object], details), context) if isinstance(details, dict) else {},
    )


def _to_safe_text(value: object, context: ToolContext) -> str:
    text = value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()
    return strip_host_paths(text, context.out_dir)


_MAX_DETAILS: Final = 20


def _to_safe_details(details: dict[str, object], context: ToolContext) -> dict[str, str | int | float | bool | None]:
    first = list(details.items())[:_MAX_DETAILS]
    return {
        name: value if isinstance(value, int | float | None) else _to_safe_text(value, context) for name, value in first
    }


def _json_outcome(value: object, context: ToolContext) -> Outcome:
    if value is None:
        return Outcome()
    if isinstance(value, str):
        return _with_artifact(replace_lone_surrogates(value), "text/plain", context)
    return _with_artifact(msgspec.json.encode(value).decode(), "application/json", context)


def _with_artifact(text: str, mime: str, context: ToolContext) -> Outcome:
    path = f"tc:{context.turn_id}.{context.tool_call_id}.result"
    return Outcome(artifacts=(Artifact(path=path, mime=mime, text=text, kind="file", visibility="internal"),))
