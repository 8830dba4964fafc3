"""Wording: what a message holds that needs no understanding: file names, quotations, clauses, lists."""

import re
from typing import Final

MAX_MESSAGE_CHARS: Final = 4_000
"""How much of a message is looked at; a longer one is pasted material, and its beginning says what is wanted."""

_NAME: Final = r"(?:[\w-]{1,80}/){0,8}[\w-]{1,80}(?:\.[\w-]{1,40}){0,3}\.[A-Za-z][A-Za-z0-9]{0,4}"
_FILE: Final = re.compile(rf"(?<![\w./@:-])({_NAME})(?![\w/@-])")
_NO_FILES: Final = frozenset({"e.g", "i.e", "a.m", "p.m"})
_NO_ENDINGS: Final = frozenset({"com", "org", "net", "io", "eu", "de", "uk"})
_QUOTE: Final = re.compile(
    r'"([^"\n]{1,2000})"|“([^”\n]{1,2000})”|«([^»\n]{1,2000})»|`([^`\n]{1,2000})`|(?<!\w)\'([^\'\n]{1,2000})\'(?!\w)'
)


def file_names(message: str) -> list[str]:
    """The names of files in a message, each once, in their order."""
    found = (match[1] for match in _FILE.finditer(message[:MAX_MESSAGE_CHARS]))
    return list(dict.fromkeys(name for name in found if _is_file(name)))


def quotations(message: str) -> list[str]:
    """What stands in quotation marks, but for file names."""
    found = (_inner(match) for match in _QUOTE.finditer(message[:MAX_MESSAGE_CHARS]))
    return [text for text in found if text.strip() and not is_file_name(text)]


def is_file_name(text: str) -> bool:
    """Whether the whole text is the name of a file."""
    return bool(_FILE.fullmatch(text.strip())) and _is_file(text.strip())


def normal(message: str) -> str:
    """The message with FILE for every file name and TEXT for every quotation, so that only its form is compared."""
    cut = message[: MAX_MESSAGE_CHARS // 4]
    cut = _QUOTE.sub(lambda match: " FILE " if is_file_name(_inner(match)) else " TEXT ", cut)
    cut = _FILE.sub(lambda match: "FILE" if _is_file(match[1]) else match[1], cut)
    return " ".join(cut.split())


def without_quotations(message: str) -> tuple[str, list[str]]:
    """The message with a placeholder for each quotation, and what they stand for; file names stay."""
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        text = _inner(match)
        if is_file_name(text):
            return text
        held.append(text)
        return f" {chr(_FIRST + len(held) - 1)} "

    return " ".join(_QUOTE.sub(hold, message[:MAX_MESSAGE_CHARS]).split()), held


def with_quotations(text: str, held: list[str]) -> str:
    """The text with what its placeholders stand for."""
    return "".join(held[ord(char) - _FIRST] if 0 <= ord(char) - _FIRST < len(held) else char for char in text).strip()


def clauses(message: str) -> list[str]:
    """The parts of a message that says what to do first and what then; most have one."""
    hidden, held = without_quotations(message)
    parts = [part.strip(" ,;") for part in _THEN.split(hidden)]
    marked = [f'"{text}"' for text in held]
    return [with_quotations(part, marked) for part in parts if part] if len(parts) > 1 else [message]


def said_content(message: str) -> str | None:
    """The text that a message wants written word for word, where it has one."""
    start, end = message.find("{"), message.rfind("}")
    if 0 <= start < end and '"' not in message[:start]:
        return message[start : end + 1]
    if held := quotations(message):
        return "\n".join(held)
    for pattern in (_SAYING, _COLON):
        if found := pattern.search(message[:MAX_MESSAGE_CHARS]):
            text = _without_file_sentence(found[1]).strip()
            return _INTO_FILE.sub("", text).strip() or None
    return None


def subject(message: str) -> str:
    """What the text is to be about: the message without politeness and without where to put it."""
    text = _PLEASE.sub("", " ".join(message[:MAX_MESSAGE_CHARS].split()))
    text = _FILE_FIRST.sub("Write ", _INTO_FILE.sub("", text))
    text = _VERB.sub("Write ", _A_FILE.sub("a text", _FILE.sub("", text)))
    return " ".join(text.split()).strip(" .,;:") or message.strip()


def is_question(message: str) -> bool:
    """Whether the message asks something or asks for a summary."""
    return message.rstrip().endswith("?") or bool(_ASKS.match(message))


def begins_with_edit(message: str) -> bool:
    """Whether the message begins with a word that changes what is there."""
    return bool(_EDITS.match(_PLEASE.sub("", message.strip())))


def begins_with_look(message: str) -> bool:
    """Whether the message begins with a word that looks at what is there."""
    return bool(_LOOKS.match(_PLEASE.sub("", message.strip())))


def file_stem(message: str) -> str:
    """A name for a file that was given none, from the words of its subject."""
    words = [word for word in re.findall(r"[a-z0-9]+", subject(message).lower()) if word not in _FILLER]
    return "-".join(words[:4])[:40] or "text"


def listed(message: str) -> list[str]:
    """The items that a message lists: numbered, or after a colon between commas or line breaks."""
    numbered = [item.strip(" ,;.") for item in _NUMBER.split(message[:MAX_MESSAGE_CHARS])[1:]]
    if len(numbered) > 1:
        return [item for item in numbered if item]
    after = message[:MAX_MESSAGE_CHARS].partition(":")[2]
    items = [re.sub(r"^(?:and|then|finally)\s+", "", item.strip(" .-*")) for item in re.split(r"[,;\n]", after)]
    return [item for item in items if item] if len([item for item in items if item]) > 1 else []


def _inner(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _is_file(name: str) -> bool:
    return name.lower() not in _NO_FILES and name.rpartition(".")[2].lower() not in _NO_ENDINGS


def _without_file_sentence(text: str) -> str:
    """The text without a last sentence that only says which file is meant."""
    head, mark, last = text.rpartition(". ")
    return f"{head}." if mark and file_names(last) and "file" in last.lower() else text


_FIRST: Final = 0xE000  # placeholders are characters that no message uses: the private use area
_THEN: Final = re.compile(
    r"(?:[.;,]\s{0,3}|\s)(?:and\s)?(?:then|after that|afterwards|next|finally)(?:,)?\s(?!to\b)"
    r"|[.!;]\s{1,3}(?=(?:Write|Save|Create|Make|Read|Show|Open|Replace|Change|Append|Add|Remove|Delete|Search|Find|Plan)\b)",
    re.IGNORECASE,
)
_SAYING: Final = re.compile(
    r"\b(?:(?:with|containing|has)?\s?(?:the|this|following|one)\s(?:text|line|lines|content|contents|words|header|sentence)"
    r"|containing|that says|which says|saying|that reads)(?:\s?:)?\s(.+)",
    re.IGNORECASE | re.DOTALL,
)
_COLON: Final = re.compile(r":\s+(\S.*)", re.DOTALL)
_INTO_FILE: Final = re.compile(
    rf"[\s,]*\b(?:and\s)?(?:(?:please\s)?(?:put|save|store|write|keep|place)\s(?:it|them|this|that|the result)\s)?"
    rf"(?:in|into|to|as|under|inside|called|named|file name|filename)"
    rf"(?:\s(?:a|the|my|new|text|file|document|called|named|as|name)){{0,5}}\s[\"“'`]?{_NAME}[\"”'`]?(?:\sfile)?"
    r"(?:\sfor\s(?:me|later))?[.?!]?",
    re.IGNORECASE,
)
_FILE_FIRST: Final = re.compile(
    rf"^((?:write|create|make|generate|produce|draft|compose|add|prepare))\b(?:\s(?:a|an|the|new|text|file|document|called|named))"
    rf"{{0,6}}\s{_NAME}(?:\s(?:that|which|with|containing|about|for))?",
    re.IGNORECASE,
)
_VERB: Final = re.compile(
    r"^(?:i (?:need|want)|save|store|put together|put|create|make|generate|produce|prepare|draft|compose|add|keep)\s",
    re.IGNORECASE,
)
_A_FILE: Final = re.compile(
    r"\b(?:a|the)\s(?:new\s)?(?:text\s)?(?:file|document)(?:\s(?:called|named))?\b", re.IGNORECASE
)
_EDITS: Final = re.compile(
    r"(?:edit|change|modify|update|fix|correct|append|insert|remove|delete|drop|replace|substitute|swap|rename)\b",
    re.IGNORECASE,
)
_LOOKS: Final = re.compile(
    r"(?:show|read|open|display|print|view|look|see|check|have a look|let me (?:see|read)|list|summari[sz]e|give me)\b",
    re.IGNORECASE,
)
_PLEASE: Final = re.compile(
    r"^(?:(?:please|kindly|hey|hi|hello|now|ok|okay|can you|could you|would you|will you|i(?:'d| would) like you to"
    r"|i want you to|i need you to)[,\s]+){1,4}",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"(?:what|who|whom|whose|when|where|why|how|which|is|are|was|were|does|do|did|can|may|am"
    r"|summari[sz]e|explain|tell me)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?:^|\s)\(?\d{1,2}[.)]\s+")
_FILLER: Final = frozenset(
    re.split(
        r"\s+",
        "a an the of for to in on about with and or my your some me write create make generate file text new please "
        "short draft compose three two one put it into that this",
    )
)
