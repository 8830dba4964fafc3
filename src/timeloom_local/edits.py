"""Parses the edit that a message describes, and applies it to a text."""

import re
from typing import Final, assert_never

import msgspec

from timeloom_local.text_rules import extract_quotations, restore_quotations


class TextReplacement(msgspec.Struct, frozen=True):
    """Replaces every `old` by `new`."""

    old: str
    new: str


class LineInsertion(msgspec.Struct, frozen=True):
    """Adds a line at the end or at the top."""

    line: str
    top: bool = False


class LineRemoval(msgspec.Struct, frozen=True):
    """Removes the lines that contain these words, or the line with this number, counted from 1; -1 is the last."""

    words: str = ""
    place: int = 0


class ValueChange(msgspec.Struct, frozen=True):
    """Sets the value of a key."""

    key: str
    value: str


Edit = TextReplacement | LineInsertion | LineRemoval | ValueChange


def parse_edit(message: str) -> Edit | None:
    """Parse the edit that a message describes; None if its form is unknown."""
    text, held = extract_quotations(message)
    text = _FILE_PHRASE.sub(" ", text).strip(" .?!")
    for pattern, make in _FORMS:
        if found := pattern.search(text):
            parts = [restore_quotations(_strip_article(part or ""), held) for part in found.groups()]
            if edit := make(parts):
                return edit
    return None


def apply_edit(text: str, edit: Edit) -> str | None:
    """Apply the edit to the text; None if it changes nothing."""
    match edit:
        case TextReplacement(old, new):
            after = text.replace(old, new) if old in text else _replace_any_case(text, old, new)
        case LineInsertion(line, top):
            after = f"{line}\n{text}" if top else f"{text.rstrip(chr(10))}\n{line}\n"
        case LineRemoval():
            after = _remove_matching_lines(text, edit)
        case ValueChange(key, value):
            after = _set(text, key, value)
        case _:
            assert_never(edit)
    return after if after != text else None


def describe_edit(edit: Edit) -> str:
    """Describe the edit for the answer."""
    match edit:
        case TextReplacement(old, new):
            return f"replaced “{old}” by “{new}”" if new else f"took out “{old}”"
        case LineInsertion(line, top):
            return f"added the line “{line}” at the {'top' if top else 'end'}"
        case LineRemoval(words, place):
            return f"removed the lines with “{words}”" if words else f"removed line {place if place > 0 else 'last'}"
        case ValueChange(key, value):
            return f"set {key} to {value}"
        case _:
            assert_never(edit)


_PLACES: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
_FILE_PHRASE: Final = re.compile(
    r"\b(?:in|to|from|of|into) (?:it|there|the file|that file|the text)\b"
    r"|(?:\b(?:in|of|from|to|into|at the (?:end|bottom) of|inside|within)\s)?(?:the\s|my\s)?(?:file\s)?"
    r"(?:[\w-]{1,80}/){0,8}[\w-]{1,80}\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/])(?:\sfile)?[:,]?",
)


def _strip_article(part: str) -> str:
    return _ARTICLE.sub("", part.strip(" ,;:.")).strip(" ,;:.")


_ARTICLE: Final = re.compile(
    r"^(?:(?:the|a|an|this|another|every|all)\s)?"
    r"(?:(?:line|lines|word|words|text|item|entry|phrase|sentence|name)(?:\s(?=.)|:\s?))?"
    r"(?:(?:about|with|containing|saying|that says)\s)?",
    re.IGNORECASE,
)


def _replace(parts: list[str]) -> Edit | None:
    return TextReplacement(parts[0], parts[1]) if parts[0] else None


def _replace_reversed(parts: list[str]) -> Edit | None:
    return TextReplacement(parts[1], parts[0]) if parts[1] else None


def _set_value(parts: list[str]) -> Edit | None:
    key = re.sub(r"^the\s+", "", parts[0])
    return ValueChange(key, parts[1]) if key and parts[1] else None


def _add(parts: list[str]) -> Edit | None:
    return LineInsertion(parts[0], top=bool(parts[1])) if parts[0] else None


def _remove_place(parts: list[str]) -> Edit | None:
    word = parts[0].lower()
    return LineRemoval(place=_PLACES.get(word) or int(re.sub(r"\D", "", word) or 0))


def _remove_lines(parts: list[str]) -> Edit | None:
    return LineRemoval(words=parts[0]) if parts[0] else None


def _remove_text(parts: list[str]) -> Edit | None:
    return TextReplacement(parts[0], "") if parts[0] else None


_REMOVE: Final = r"\b(?:remove|delete|drop|erase|take out)\s"
_TEXT: Final = r"(.{1,2000})$"
_WHERE: Final = (
    r"(?:\s(?:(?:at|to) the (?:end|bottom)|(?:at|to) the (top|beginning|start).{0,200}"
    r"|as (?:a|the) (?:new |last )?line))?"
)
_FORMS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), make)
    for pattern, make in (
        (rf"\b(?:replace|substitute|swap|exchange)\s(.{{1,2000}}?)\s(?:with|by|for|against)\s{_TEXT}", _replace),
        (
            rf"\b(?:use|say|read|have|write|put|to)\s(.{{1,2000}}?)\s(?:instead of|rather than)\s{_TEXT}",
            _replace_reversed,
        ),
        (rf"\bfrom\s(.{{1,500}}?)\s(?:to|into)\s{_TEXT}", _replace),
        (rf"\b(?:change|correct|rename|turn|fix)\s([\ue000-\uf8ff]|\S{{1,200}})\s(?:to|into|as)\s{_TEXT}", _replace),
        (rf"\b(?:set|change|update|make|turn)\s(.{{1,500}}?)\s(?:to(?: be)?|into|=)\s{_TEXT}", _set_value),
        (
            rf"{_REMOVE}(?:the\s)?(first|second|third|fourth|fifth|last|\d{{1,4}}(?:st|nd|rd|th))\sline",
            _remove_place,
        ),
        (rf"{_REMOVE}line\s(\d{{1,4}})", _remove_place),
        (rf"{_REMOVE}(?:the\s|every\s|all\s)?(?:lines?|items?|entry|entries)\s{_TEXT}", _remove_lines),
        (rf"{_REMOVE}{_TEXT}", _remove_text),
        (rf"\b(?:append|add|insert|put|write)\s(.{{1,2000}}?){_WHERE}$", _add),
    )
)
"""Patterns of edits with the function that builds each; the first match wins."""


def _replace_any_case(text: str, old: str, new: str) -> str:
    return re.sub(re.escape(old), lambda _: new, text, flags=re.IGNORECASE) if old else text


def _remove_matching_lines(text: str, edit: LineRemoval) -> str:
    lines = text.splitlines(keepends=True)
    if edit.words:
        wanted = edit.words.lower()
        return "".join(line for line in lines if wanted not in line.lower())
    at = edit.place - 1 if edit.place > 0 else len(lines) + edit.place
    return "".join(line for n, line in enumerate(lines) if n != at)


def _set(text: str, key: str, value: str) -> str:
    if key.lower() in ("title", "heading", "headline"):
        return re.sub(r"^(#*\s*).*", lambda found: f"{found[1]}{value}", text, count=1)
    pattern = re.compile(rf'({re.escape(key)}["\']?\s{{0,3}}[:=]\s{{0,3}})("[^"\n]*"|[^,\}}\n]+)', re.IGNORECASE)
    return pattern.sub(lambda found: found[1] + (f'"{value}"' if found[2].startswith('"') else value), text, count=1)
