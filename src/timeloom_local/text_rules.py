"""Extracts file names, quotations, clauses and lists from a message with regular expressions."""

import re
from typing import Final

MAX_MESSAGE_CHARS: Final = 4_000
"""Maximum length of a message that is read. A longer one contains pasted text, and the request is at its start."""

_NAME: Final = r"(?:[\w-]{1,80}/){0,8}[\w-]{1,80}(?:\.[\w-]{1,40}){0,3}\.[A-Za-z][A-Za-z0-9]{0,4}"
_FILE: Final = re.compile(rf"(?<![\w./@:-])({_NAME})(?![\w/@-])")
_NO_FILES: Final = frozenset({"e.g", "i.e", "a.m", "p.m"})
_NO_ENDINGS: Final = frozenset({"com", "org", "net", "io", "eu", "de", "uk"})
_QUOTE: Final = re.compile(
    r'"([^"\n]{1,2000})"|“([^”\n]{1,2000})”|«([^»\n]{1,2000})»|`([^`\n]{1,2000})`|(?<!\w)\'([^\'\n]{1,2000})\'(?!\w)'
)


def find_file_names(message: str) -> list[str]:
    """Return the file names in a message, without duplicates, in order."""
    found = (match[1] for match in _FILE.finditer(message[:MAX_MESSAGE_CHARS]))
    return list(dict.fromkeys(name for name in found if _is_file(name)))


def find_quotations(message: str) -> list[str]:
    """Return the quoted texts of a message, except file names."""
    found = (_quoted_text(match) for match in _QUOTE.finditer(message[:MAX_MESSAGE_CHARS]))
    return [text for text in found if text.strip() and not is_file_name(text)]


def is_file_name(text: str) -> bool:
    """Return whether the whole text is a file name."""
    return bool(_FILE.fullmatch(text.strip())) and _is_file(text.strip())


def normalize_form(message: str) -> str:
    """Return the message with FILE for file names and TEXT for quotations, so that only its form is compared."""
    cut = message[: MAX_MESSAGE_CHARS // 4]
    cut = _QUOTE.sub(lambda match: " FILE " if is_file_name(_quoted_text(match)) else " TEXT ", cut)
    cut = _FILE.sub(lambda match: "FILE" if _is_file(match[1]) else match[1], cut)
    return " ".join(cut.split())


def extract_quotations(message: str) -> tuple[str, list[str]]:
    """Return the message with a placeholder for each quotation, and the quotations; file names stay."""
    quotations: list[str] = []

    def replace_one(match: re.Match[str]) -> str:
        text = _quoted_text(match)
        if is_file_name(text):
            return text
        quotations.append(text)
        return f" {chr(_FIRST + len(quotations) - 1)} "

    return " ".join(_QUOTE.sub(replace_one, message[:MAX_MESSAGE_CHARS]).split()), quotations


def restore_quotations(text: str, quotations: list[str]) -> str:
    """Return the text with its placeholders replaced by the quotations."""
    return "".join(
        quotations[ord(char) - _FIRST] if 0 <= ord(char) - _FIRST < len(quotations) else char for char in text
    ).strip()


def split_clauses(message: str) -> list[str]:
    """Split a message like "do this, then that" into its parts; most messages have one."""
    hidden, quotations = extract_quotations(message)
    parts = [part.strip(" ,;") for part in _THEN.split(hidden)]
    marked = [f'"{text}"' for text in quotations]
    return [restore_quotations(part, marked) for part in parts if part] if len(parts) > 1 else [message]


def find_literal_content(message: str) -> str | None:
    """Return the literal text that a message asks to write, or None."""
    start, end = message.find("{"), message.rfind("}")
    if 0 <= start < end and '"' not in message[:start]:
        return message[start : end + 1]
    if held := find_quotations(message):
        return "\n".join(held)
    for pattern in (_SAYING, _COLON):
        if found := pattern.search(message[:MAX_MESSAGE_CHARS]):
            text = _without_file_sentence(found[1]).strip()
            return _INTO_FILE.sub("", text).strip() or None
    return None


def find_subject(message: str) -> str:
    """Return the subject of the text to write: the message without polite phrases and without the target file."""
    text = _PLEASE.sub("", " ".join(message[:MAX_MESSAGE_CHARS].split()))
    text = _FILE_FIRST.sub("Write ", _INTO_FILE.sub("", text))
    text = _VERB.sub("Write ", _A_FILE.sub("a text", _FILE.sub("", text)))
    return " ".join(text.split()).strip(" .,;:") or message.strip()


def is_question(message: str) -> bool:
    """Return whether the message is a question or asks for a summary."""
    return message.rstrip().endswith("?") or bool(_ASKS.match(message))


def is_edit_request(message: str) -> bool:
    """Return whether the message begins with a verb of editing, such as `replace`."""
    return bool(_EDITS.match(_PLEASE.sub("", message.strip())))


def is_read_request(message: str) -> bool:
    """Return whether the message begins with a verb of reading, such as `show`."""
    return bool(_LOOKS.match(_PLEASE.sub("", message.strip())))


def make_file_stem(message: str) -> str:
    """Make a file name from the words of the message's subject."""
    words = [word for word in re.findall(r"[a-z0-9]+", find_subject(message).lower()) if word not in _FILLER]
    return "-".join(words[:4])[:40] or "text"


def find_list_items(message: str) -> list[str]:
    """Return the items of a list in a message: numbered, or after a colon, separated by commas or line breaks."""
    numbered = [item.strip(" ,;.") for item in _NUMBER.split(message[:MAX_MESSAGE_CHARS])[1:]]
    if len(numbered) > 1:
        return [item for item in numbered if item]
    after = message[:MAX_MESSAGE_CHARS].partition(":")[2]
    items = [re.sub(r"^(?:and|then|finally)\s+", "", item.strip(" .-*")) for item in re.split(r"[,;\n]", after)]
    return [item for item in items if item] if len([item for item in items if item]) > 1 else []


def _quoted_text(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _is_file(name: str) -> bool:
    return name.lower() not in _NO_FILES and name.rpartition(".")[2].lower() not in _NO_ENDINGS


def _without_file_sentence(text: str) -> str:
    """Return the text without a last sentence that only names the file."""
    head, mark, last = text.rpartition(". ")
    return f"{head}." if mark and find_file_names(last) and "file" in last.lower() else text


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
