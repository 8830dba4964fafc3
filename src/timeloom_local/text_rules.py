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
    r'"([^"]{1,2000})"|“([^”]{1,2000})”|«([^»\n]{1,2000})»|`([^`\n]{1,2000})`|(?<!\w)\'([^\'\n]{1,2000})\'(?!\w)'
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

    def hold(text: str) -> str:
        quotations.append(text)
        return f" {chr(_FIRST + len(quotations) - 1)} "

    def replace_one(match: re.Match[str]) -> str:
        text = _quoted_text(match)
        return text if is_file_name(text) else hold(text)

    # The message itself must not contain placeholders.
    message = _PRIVATE.sub("\N{REPLACEMENT CHARACTER}", message[:MAX_MESSAGE_CHARS])
    message = _FENCED.sub(lambda match: hold(match[1]), message)
    if block := _BLOCK.fullmatch(message.strip()):
        message = f"{block[1]} {hold(block[2].strip(chr(10)))}"
    message = _OBJECT.sub(lambda match: hold(match[0]), message)
    return " ".join(_QUOTE.sub(replace_one, message).split()), quotations


def restore_quotations(text: str, quotations: list[str]) -> str:
    """Return the text with its placeholders replaced by the quotations."""
    return "".join(
        quotations[ord(char) - _FIRST] if 0 <= ord(char) - _FIRST < len(quotations) else char for char in text
    ).strip()


def is_question(message: str) -> bool:
    """Return whether the message is a question or asks for a summary."""
    return message.rstrip().endswith("?") or bool(_ASKS.match(message))


def find_list_items(message: str) -> list[str]:
    """Return the items of a list in a message: numbered, or after a colon, separated by commas or line breaks."""
    numbered = [item.strip(" ,;.") for item in _NUMBER.split(message[:MAX_MESSAGE_CHARS])[1:]]
    if len(numbered) > 1:
        return [item for item in numbered if item]
    after = message[:MAX_MESSAGE_CHARS].partition(":")[2]
    if not after and (listed := _PARENTHESES.search(message[:MAX_MESSAGE_CHARS])):
        after = listed[1]
    items = [re.sub(r"^(?:and|then|finally)\s+", "", item.strip(" .-*")) for item in re.split(r"[,;\n]", after)]
    return [item for item in items if item] if len([item for item in items if item]) > 1 else []


def split_message(message: str) -> list[str]:
    """Return the sentences of a message, without empty ones; a number with a full stop does not end one."""
    parts = (part.strip(" ,;") for part in _SENTENCE_END.split(message))
    return [part for part in parts if any(char.isalnum() or char >= "\ue000" for char in part)]


def _quoted_text(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _is_file(name: str) -> bool:
    return name.lower() not in _NO_FILES and name.rpartition(".")[2].lower() not in _NO_ENDINGS


_PRIVATE: Final = re.compile("[\ue000-\uf8ff]")
_FENCED: Final = re.compile(r"```\w{0,20}\n(.{1,4000}?)\n?```", re.DOTALL)
_BLOCK: Final = re.compile(r"([^\n]{1,300}:)[ \t]*\n(.*\S.*)", re.DOTALL)
_OBJECT: Final = re.compile(r"\{[^{}\n]{0,2000}(?:\{[^{}\n]{0,500}\}[^{}\n]{0,500}){0,20}\}")
_FIRST: Final = 0xE000  # placeholders are characters that no message uses: the private use area
_ASKS: Final = re.compile(
    r"(?:what|who|whom|whose|when|where|why|how|which|is|are|was|were|does|do|did|can|may|am"
    r"|summari[sz]e|explain|tell me)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?:^|\s)\(?\d{1,2}[.)]\s+")
_PARENTHESES: Final = re.compile(r"\(([^()\n]{3,1000}[,;][^()\n]{2,1000})\)")
_SENTENCE_END: Final = re.compile(
    r"(?:[.!?…]{2,}|…|(?<![\d.])(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bSt)(?<!\bvs)[.!?]|(?<=[a-z)\]]\d)[.!?]"
    r"|(?<=\d)[.!?](?=\s+(?:[A-Z][a-z]|can |could |please |pls |so |now )))\s+|;\s+",
    re.IGNORECASE,
)
