"""Checks that the text of a final answer is one JSON value of the turn's schema."""

import re
from typing import Final

import msgspec

from timeloom.core.policy.answer.schema import parse_schema
from timeloom.core.policy.answer.validate import find_mismatch
from timeloom.core.stream.lenient_json import LenientJsonError, read_lenient_json

MAX_ANSWER_CHARS: Final = 1_000_000
"""Longest structured answer; it is parsed at once."""

_FENCED: Final = re.compile(r"```[A-Za-z0-9]{0,16}[ \t]*\n(.*)\n?[ \t]*```", re.DOTALL)


class CheckedAnswer(msgspec.Struct, frozen=True):
    """The strict JSON of an answer, or the reason why it is invalid."""

    json: str = ""
    problem: str = ""


def check_answer(text: str, schema: str) -> CheckedAnswer:
    """Return the strict JSON of the answer, or what is wrong with it; `schema` is the JSON schema of the turn.

    A code fence around the value and slips of spelling with exactly one reading are repaired.
    """
    if len(text) > MAX_ANSWER_CHARS:
        return _invalid(f"it has {len(text)} characters, and at most {MAX_ANSWER_CHARS} are allowed")
    try:
        json, value = _read_value(text)
    except LenientJsonError as error:
        return _invalid(f"it is not one JSON value: {error} at character {error.at}")
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        return _invalid(f"it is not one JSON value: {error}")
    mismatch = find_mismatch(parse_schema(schema), value)
    return _invalid(mismatch.text) if mismatch else CheckedAnswer(json)


def _read_value(text: str) -> tuple[str, object]:
    written = text.strip()
    if fenced := _FENCED.fullmatch(written):
        written = fenced[1].strip()
    try:
        return written, msgspec.json.decode(written)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        # A final answer is whole, but it may have been cut before its end, so nothing is closed for it.
        read = read_lenient_json(written, may_close=False, is_whole=True)
    if rest := written[read.end :].strip():
        raise LenientJsonError(read.end, f"text follows the value: {rest[:40]!r}")
    return read.text, msgspec.json.decode(read.text)


def _invalid(problem: str) -> CheckedAnswer:
    text = f"the final answer does not fit the output schema: {problem}; answer again with exactly one JSON value of it"
    return CheckedAnswer(problem=text)
