"""Parses the edit that a request describes, and applies it to a text."""

import re
from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from timeloom_local.text_rules import restore_quotations


class TextReplacement(msgspec.Struct, frozen=True):
    """Replaces every `old` by `new`: whole words, or a part of a word if no whole word matches."""

    old: str
    new: str


class LineInsertion(msgspec.Struct, frozen=True, kw_only=True):
    """Adds text as lines, at the end or at the top; in a list, plain words become items of the list."""

    text: str
    at_top: bool = False
    is_line: bool = False
    """Whether the text is added as it is, without a bullet."""
    is_quoted: bool = False


class LineRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """Removes the line with this number (counted from 1, -1 is the last), or the lines with these words."""

    words: str = ""
    place: int = 0
    removes_all: bool = False
    """Whether several lines may be removed."""
    is_line: bool = True
    """Whether the request says that lines are removed; otherwise, words are taken out of a long line."""


class ValueChange(msgspec.Struct, frozen=True):
    """Sets the value of a key."""

    key: str
    value: str


Edit = TextReplacement | LineInsertion | LineRemoval | ValueChange


class EditRefusal(msgspec.Struct, frozen=True):
    """The reason why an edit does not apply to a text."""

    reason: str


def parse_change(text: str, held: list[str]) -> Edit | None:
    """Parse a change, such as `replace A with B`, from a text without its file and with placeholders for quotations."""
    return _parse(text, held, _CHANGES)


def parse_removal(text: str, held: list[str]) -> Edit | None:
    """Parse a removal, such as `the line about A`."""
    return _parse(text, held, _REMOVALS)


def parse_insertion(text: str, held: list[str], *, at_top: bool) -> LineInsertion | None:
    """Parse what is to be added."""
    cut = _CONNECTIVE.sub("", text.strip(" ,;:"))
    kind = _LINE_KIND.match(cut)
    cut = cut[kind.end() :] if kind else cut
    is_quoted = len(cut.strip(" .")) == 1 and ord(cut.strip(" .")) >= _FIRST_PLACEHOLDER
    found = restore_quotations(cut if is_quoted or _TITLE.match(cut) else _ARTICLE.sub("", cut), held).strip()
    if not is_quoted:
        found = found.strip(" ,;").removesuffix(".")
    return LineInsertion(text=found, at_top=at_top, is_line=bool(kind), is_quoted=is_quoted) if found else None


def apply_edit(text: str, edit: Edit) -> str | EditRefusal:
    """Apply the edit to the text; a refusal if it changes nothing or is ambiguous."""
    match edit:
        case TextReplacement(old, new):
            after: str | EditRefusal = _replace_text(text, old, new)
        case LineInsertion():
            after = _insert(text, edit)
        case LineRemoval():
            after = _remove_lines(text, edit)
        case ValueChange(key, value):
            after = _set_value(text, key, value)
        case _:
            assert_never(edit)
    return EditRefusal("it already says so") if after == text else after


def describe_edit(edit: Edit) -> str:
    """Describe the edit for the answer."""
    match edit:
        case TextReplacement(old, new):
            return f"replaced “{old}” by “{new}”"
        case LineInsertion(text=text, at_top=at_top):
            return f"added “{text}” at the {'top' if at_top else 'end'}"
        case LineRemoval(words=words, place=place, is_line=is_line):
            kind = "line" if is_line else "item"
            return (
                f"removed “{words}”" if words else f"removed {f'the last {kind}' if place < 0 else f'{kind} {place}'}"
            )
        case ValueChange(key, value):
            return f"set {key} to {value}"
        case _:
            assert_never(edit)


_FIRST_PLACEHOLDER: Final = 0xE000
_CONNECTIVE: Final = re.compile(r"^(?:also|in|there|the following|this)\s*:?\s+(?=\S)", re.IGNORECASE)
_LINE_KIND: Final = re.compile(
    r"^(?:the |a |an |another |one |this )?(?:new )?(?:last |first )?(?:line|lines|sentence|text|paragraph|row|rows)"
    r"(?:\s?:\s?|\s(?:saying|that says|which says|with|reading)\s|\s)",
    re.IGNORECASE,
)
_ARTICLE: Final = re.compile(
    r"^(?:(?:the|a|an|some|another|also|my)\s)?(?:(?:item|items|entry|word|words|name|names|bullet"
    r"|bullet point|point|note)"
    r"(?:\s(?:for|saying|that says|about)\s|\s?:\s?|\s(?=[\ue000-\uf8ff]|\S)))?",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(r"(?:The|A|An|My) [A-Z]")
"""A name that begins with an article, such as `The Apartment`."""
_PLACES: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
_EditMaker = Callable[[list[str]], Edit | None]


def _parse(text: str, held: list[str], forms: "tuple[tuple[re.Pattern[str], _EditMaker], ...]") -> Edit | None:
    text = text.strip(" .?!,")
    for pattern, make in forms:
        if found := pattern.fullmatch(text):
            parts = [_bare(part or "") for part in found.groups()]
            if any(_is_partly_quoted(part) or _INSTRUCTION.search(part) or _PRONOUN.fullmatch(part) for part in parts):
                return None
            return make([restore_quotations(part, held) for part in parts])
    return None


def _is_partly_quoted(part: str) -> bool:
    """Return whether words stand beside a quotation, so that they are not the text itself."""
    return len(part) > 1 and any(ord(char) >= _FIRST_PLACEHOLDER for char in part)


def _bare(part: str) -> str:
    return _NOUN.sub("", part.strip(" ,;:.")).strip(" ,;:.")


_NOUN: Final = re.compile(
    r"^(?:(?:the|a|an|this|every|all|each|occurrences? of)\s)*(?:(?:word|words|text|phrase|sentence|name|spelling|term)"
    r"(?:\s(?=\S)|:\s?))?(?:of\s)?",
    re.IGNORECASE,
)


def _replace(parts: list[str]) -> Edit | None:
    return TextReplacement(parts[0], parts[1]) if parts[0] and parts[1] else None


def _replace_reversed(parts: list[str]) -> Edit | None:
    return TextReplacement(parts[1], parts[0]) if parts[0] and parts[1] else None


def _change_value(parts: list[str]) -> Edit | None:
    return ValueChange(parts[0], parts[1]) if parts[0] and parts[1] else None


def _remove_place(parts: list[str]) -> Edit | None:
    word = parts[0].lower()
    is_item = len(parts) > 1 and parts[1].lower() != "line"
    return LineRemoval(place=_PLACES.get(word) or int(re.sub(r"\D", "", word) or 0), is_line=not is_item)


def _remove_lines_with(parts: list[str]) -> Edit | None:
    return (
        LineRemoval(words=parts[1], removes_all=parts[0].lower() in ("lines", "items", "entries")) if parts[1] else None
    )


def _remove_words(parts: list[str]) -> Edit | None:
    return LineRemoval(words=parts[0], is_line=False) if parts[0] else None


_INSTRUCTION: Final = re.compile(
    r"\b(?:and|but|then) (?:please )?(?:leave|keep|then|tell|show|don't|dont|do not|make|let|give|also|save|put"
    r"|add|change)\b"
    r"|\bfor me\b|\bplease\b|\b(?:because|since|cause|cos) (?:i|we|he|she|it|they|the|my|our|that)\b",
    re.IGNORECASE,
)
"""Words of a request that are never part of the text of a file."""
_PRONOUN: Final = re.compile(
    r"it|that|this|them|these|those|(?:(?:the|a|an) )?(?:new|old|right|correct|wrong|other|better"
    r"|current) (?:one|ones|version)",
    re.IGNORECASE,
)
"""Words for a text that the request does not say."""
_OLD: Final = r"(.{1,500}?)"
_NEW: Final = r"(.{1,2000})"
_KEY_TEXT: Final = r"([\w-]{1,40}(?: [\w-]{1,40}){0,2}?)"
_KEY: Final = r"(?:the )?(title|heading|headline|[\w-]{1,40}(?: [\w-]{1,40})?)"
_CHANGES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), make)
    for pattern, make in (
        (rf"(?:please )?substitute {_OLD} for {_NEW}", _replace_reversed),
        (rf"(?:replace|substitute|swap|exchange|change) {_OLD} (?:with|by|for|against) {_NEW}", _replace),
        (
            (
                rf"(?:make (?:it|that)|use|have it say|let it say|it should (?:say|be|read)|should (?:say|be|read)|say"
                rf"|change it to|update it to) {_NEW[:-1]}?) (?:instead of|rather than"
                rf"|(?:and )?not) (.{{1,500}})"
            ),
            _replace_reversed,
        ),
        (rf"(?:change|update|set|correct|fix|edit|turn) (?:.{{1,80}} )?from {_OLD} (?:to|into) {_NEW}", _replace),
        (rf"(?:change|set|update|make) (?:the )?(title|heading|headline) (?:to|be|into)(?: be)? {_NEW}", _change_value),
        (
            (
                rf"(?:.{{0,60}}? )?(?:should|must|needs to|has to) (?:say|be|read)(?: on| at"
                rf"| in)? {_NEW[:-1]}?) (?:instead of|rather than|,? ?(?:and )?not) (.{{1,500}})"
            ),
            _replace_reversed,
        ),
        (
            (
                rf"(?:change|correct|update|edit|make) (?:the|my|our) (?!word|words|text|phrase|spelling|name"
                rf"|term|sentence|line|lines|[\ue000-\uf8ff]){_KEY_TEXT} (?:to|into) (?:be )?{_NEW}"
            ),
            _change_value,
        ),
        (rf"(?:change|correct|rename|turn|fix|update|edit) {_OLD} (?:to|into) {_NEW}", _replace),
        (rf"(?:[^:\ue000-\uf8ff]{{1,60}}:\s)?(?:change |replace |turn )?{_OLD} ?(?:->|=>|→) ?{_NEW}", _replace),
        (rf"{_OLD} (?:should|must|needs to|has to|ought to) (?:be|say|read|become) {_NEW}", _replace),
        (rf"set {_KEY} (?:to|=|to be) {_NEW}", _change_value),
    )
)
"""Forms of changes with the function that builds each; the first match wins."""

_REMOVALS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), make)
    for pattern, make in (
        (
            (
                r"(?:the )?(first|second|third|fourth|fifth|last|\d{1,4}(?:st|nd|rd|th)) (line|item|entry"
                r"|thing)"
            ),
            _remove_place,
        ),
        (r"line (\d{1,4})", _remove_place),
        (
            (
                r"(?:the |every |all |any )*(lines?|items?|entry|entries)(?: (?:about|with|containing|that says?|saying"
                r"|mentioning|for|called|named))? (.{1,300})"
            ),
            _remove_lines_with,
        ),
        (r"(.{1,300})", _remove_words),
    )
)


def _word_pattern(words: str) -> re.Pattern[str]:
    start = r"(?<!\w)" if words[:1].isalnum() else ""
    end = r"(?!\w)" if words[-1:].isalnum() else ""
    return re.compile(start + re.escape(words) + end, re.IGNORECASE)


def _replace_text(text: str, old: str, new: str) -> str | EditRefusal:
    for pattern in (_word_pattern(old), re.compile(re.escape(old), re.IGNORECASE)):
        is_exact = any(found[0] == old for found in pattern.finditer(text))
        chosen = re.compile(pattern.pattern) if is_exact else pattern
        if chosen.search(text):
            return chosen.sub(lambda found: _same_case(found[0], old, new), text)
        if len(old) < _MIN_PART_CHARS:
            break
    return EditRefusal(f"it has no “{old}”")


def _same_case(found: str, old: str, new: str) -> str:
    """Return the new words, with a capital letter where the found words have one that the request does not."""
    capital = found[:1].isupper() and old[:1].islower() and new[:1].islower()
    return new[:1].upper() + new[1:] if capital else new


_MIN_PART_CHARS: Final = 4
_BULLET: Final = re.compile(r"^(\s*(?:[-*+•]|\d{1,4}[.)])\s+(?:\[[ xX]\]\s+)?)")
_MAX_ITEM_WORDS: Final = 4


def _insert(text: str, edit: LineInsertion) -> str:
    lines = text.rstrip("\n").split("\n") if text.strip("\n") else []
    bulleted = [line for line in lines if _BULLET.match(line)]
    wants_bullet = not edit.is_line and bool(bulleted) and not _BULLET.match(edit.text)
    items = split_items(edit, lines)
    if not edit.at_top:
        mark = bulleted[-1] if wants_bullet and _BULLET.match(lines[-1]) else ""
        for item in items:
            mark = _next_bullet(mark)
            lines.append(mark + item)
        return "\n".join(lines) + "\n"
    first = lines.index(bulleted[0]) if wants_bullet else 0
    found = _BULLET.match(bulleted[0]) if wants_bullet else None
    mark = found[1] if found and not found[1].strip()[0].isdigit() else ""
    return "\n".join([*lines[:first], *(mark + item for item in items), *lines[first:]]) + "\n"


def _next_bullet(line: str) -> str:
    """Return the bullet that follows the bullet of this line; the next number in a numbered list."""
    found = _BULLET.match(line)
    mark = re.sub(r"\[[xX]\]", "[ ]", found[1]) if found else ""
    return re.sub(r"\d+", lambda number: str(int(number[0]) + 1), mark, count=1)


def split_items(edit: LineInsertion, lines: list[str]) -> list[str]:
    """Return the lines to add: several if plain words list items and the file is a list of short lines."""
    if edit.is_quoted or edit.is_line or "\n" in edit.text:
        return edit.text.split("\n")
    parts = split_enumeration(edit.text)
    is_list = all(len(_BULLET.sub("", line).split()) <= _MAX_ITEM_WORDS or line.startswith("#") for line in lines)
    return parts if is_list and all(len(part.split()) <= _MAX_ITEM_WORDS for part in parts) else [edit.text]


def split_enumeration(text: str) -> list[str]:
    """Return the parts of `a, b and c`."""
    return [part for part in (part.strip() for part in _ENUMERATION.split(text)) if part]


_ENUMERATION: Final = re.compile(r",\s+(?:and\s+)?|\s+and\s+|;\s*")


def _remove_lines(text: str, edit: LineRemoval) -> str | EditRefusal:
    lines = text.splitlines(keepends=True)
    if edit.words:
        return _remove_matching_lines(text, lines, edit)
    places = [n for n, line in enumerate(lines) if edit.is_line or is_item(line)]
    at = edit.place - 1 if edit.place > 0 else len(places) + edit.place
    if not 0 <= at < len(places):
        return EditRefusal(f"it has only {len(places)} {'lines' if edit.is_line else 'items'}")
    return "".join(line for n, line in enumerate(lines) if n != places[at])


def is_item(line: str) -> bool:
    """Return whether a line is an item of a list: neither empty nor a heading."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _remove_matching_lines(text: str, lines: list[str], edit: LineRemoval) -> str | EditRefusal:
    wanted = edit.words.lower().strip()
    equal = [n for n, line in enumerate(lines) if _BULLET.sub("", line).strip(" \n.,;").lower() == wanted]
    pattern = _word_pattern(edit.words)
    found = equal or [n for n, line in enumerate(lines) if pattern.search(line)]
    if not found:
        return EditRefusal(f"it has no “{edit.words}”")
    if len(found) > 1 and not edit.removes_all:
        return EditRefusal(f"it has {len(found)} lines with “{edit.words}”, and I do not know which one you mean")
    if not equal and not edit.is_line and len(lines[found[0]].split()) > _MAX_ITEM_WORDS:
        if len(pattern.findall(text)) > 1:
            return EditRefusal(f"it has “{edit.words}” more than once")
        return re.sub(rf"[ \t]?{pattern.pattern}", "", text, count=1, flags=re.IGNORECASE)
    return "".join(line for n, line in enumerate(lines) if n not in found)


def _set_value(text: str, key: str, value: str) -> str | EditRefusal:
    if key.lower() in ("title", "heading", "headline"):
        return re.sub(r"^(#*\s*).*", lambda found: f"{found[1]}{value}", text, count=1)
    name = re.escape(key)
    for pattern in (
        rf'((?<!\w){name}["\']?\s{{0,3}}[:=]\s{{0,3}})("[^"\n]*"|[^,\}}\n]+)',
        rf"((?<!\w){name} (?:is|are|was|will be|costs?|starts?|begins?)(?: on| at| in)? )([^.,;\n]+(?:\.\d+)?)",
        rf"(^\s*(?:[-*+•]\s+)?)({name})(?=\s*$)",
    ):
        places = [*re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)]
        if len(places) == 1:
            found = places[0]
            new = f'"{value}"' if found[2].startswith('"') else value
            return text[: found.start(2)] + new + text[found.end(2) :]
    return EditRefusal(f"I do not see which words “{key}” means; say “Replace old words with {value}”")
