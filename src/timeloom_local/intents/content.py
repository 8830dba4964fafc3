"""Parses what a request asks to write: given text, or a short text that the model writes."""

import re
from typing import Final, Literal

import msgspec

from timeloom_local.intents.calculations import TooLargeCalculation, parse_calculation
from timeloom_local.intents.edits import split_enumeration
from timeloom_local.intents.references import REFERENCE
from timeloom_local.text_rules import restore_quotations

PROGRAM_ENDINGS: Final = frozenset({"py", "js", "ts", "sh", "sql", "html", "css", "c", "go", "rs", "java", "rb", "htm"})


class TextToWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A given text, the subject of a text that the model writes, or the reason why there is neither."""

    content: str = ""
    subject: str = ""
    uses_result: bool = False
    problem: Literal["", "what", "facts", "program"] = ""


def parse_content(what: str, held: list[str], name: str) -> TextToWrite:
    """Parse the words that describe the text of a file; `held` are the quotations that its placeholders stand for."""
    what = _INTO_IT.sub("", _SAVE_IT.sub("", what.strip(" ,;")))
    what = _CONNECTIVE.sub("", what.strip(" ,;"))
    if name.rpartition(".")[2].lower() in PROGRAM_ENDINGS and not _LITERAL.match(what):
        return _parse_program(what, held, name)
    if not what.strip(" .") or _ANYTHING.fullmatch(what):
        return TextToWrite(problem="what")
    if RESULT_WORDS.fullmatch(what):
        return TextToWrite(uses_result=True)
    if any(_is_placeholder(char) for char in what):
        return _parse_quoted(what, held)
    if numbers := _NUMBERS.fullmatch(what):
        first, last = int(numbers[1]), int(numbers[2])
        return TextToWrite(content="\n".join(map(str, range(first, min(last, first + _MAX_NUMBERS) + 1))))
    if literal := _LITERAL.match(what):
        return TextToWrite(content=to_text(what[literal.end() :], is_list=bool(_ITEMS.search(literal[0]))))
    return _parse_described(what) or TextToWrite(content=to_text(what, is_list=False))


def _parse_described(what: str) -> TextToWrite | None:
    """Parse words that describe a text, such as `a poem about rain`; None if they are the text."""
    if _CREATIVE.match(what):
        return TextToWrite(subject=f"Write {what}")
    if _LIST_NAME.match(what):
        return TextToWrite(problem="what")
    if _FACTUAL.match(what) or is_factual(what):
        return TextToWrite(problem="facts")
    if _NAMED_ONLY.fullmatch(what) and not REFERENCE.match(what):
        return TextToWrite(problem="what")
    return TextToWrite(problem="program") if _PROGRAM.match(what) else None


def is_factual(what: str) -> bool:
    """Return whether the words ask for a fact, such as `the capital of France`."""
    return bool(_FACT.match(what.strip()))


def is_creative(what: str) -> bool:
    """Return whether the words ask for a text that the model may make up, such as a poem."""
    return bool(_CREATIVE.match(what))


def make_file_name(what: str) -> str:
    """Return a file name for a list without one, such as `shopping-list.md`; empty if the words name no list."""
    found = _LIST_NAME.match(what)
    return f"{found[1].lower()}-list.md" if found else ""


_KIND_START: Final = (
    r"(?:(?:me|us|a|an|the|some|my|our|one|two|three|four|five|six|ten|\d+|short|small|little|nice|friendly|funny|quick"
    r"|brief|simple|cute|sweet|polite|formal|new|long|lovely|silly|warm|few|couple of|birthday|thank-you|thank you|love"
    r"|bedtime|welcome|christmas|holiday|get-well|lines? of|verses? of|line|lines)\s)*"
)
_CREATIVE: Final = re.compile(
    rf"{_KIND_START}(?:poems?|haikus?|limericks?|verses?|rhymes?|songs?|lyrics|story|stories|tale"
    rf"|letters?|notes?(?= to\b)|greetings?"
    r"|cards?|invitations?|messages?|e-?mails?|wish(?:es)?|toast|slogans?|diary entry|ode|ballad|sonnet"
    r"|sentences? about|lines? about|lines about)\b(?!\s?:)",
    re.IGNORECASE,
)
_FACTUAL: Final = re.compile(
    rf"{_KIND_START}(?:\w+\s){{0,2}}?(?:essays?|articles?|reports?|explanations?|summary|summaries"
    rf"|biography|history|overview|descriptions?"
    r"|guides?|tutorials?|recipes?|reviews?|analysis|introductions?|papers?|tables?|facts?|tips?"
    r"|translations?|definitions?"
    r"|comparisons?|instructions?|documentation|readme|speech|speeches|lists? of(?! [^,]*,)"
    r"|blog posts?|posts?|cv|resume|chapters?"
    r"|books?|novels?|scripts?|plays?|everything|quotes?|ideas|jokes?|paragraphs? (?:about|on)"
    r"|text (?:about|on)|something about)\b",
    re.IGNORECASE,
)
_FACT: Final = re.compile(
    r"(?:the )?(?:(?:current|exact|latest) )?(?:capital|population|weather|forecast|temperature|distance|height"
    r"|meaning|definition"
    r"|lyrics|news|president|inventor|history|exchange rate) (?:of|in|for|from|between|about)\b"
    r"|(?:today's|tomorrow's|the current|the latest) (?:weather|forecast|news|date|time|temperature|exchange rate)\b",
    re.IGNORECASE,
)
_PROGRAM: Final = re.compile(
    rf"{_KIND_START}(?:\w+\s)?(?:programs?|scripts?|functions?|class|code|web ?pages?|web ?sites?|html|app|game)\b",
    re.IGNORECASE,
)
_NAMED_ONLY: Final = re.compile(r"(?:the|my|our|your|its|their) [a-z-]+(?: [a-z-]+)?", re.IGNORECASE)
"""Words that name something without saying it, such as `my address`."""
_LITERAL: Final = re.compile(
    r"(?:(?:the|this|these|following|one|a|with)\s){0,3}(?:text|lines?|contents?|words?|sentences?"
    r"|items?|names?|entry|entries|list|note)"
    r"(?:\s?:\s?|\s(?:saying|that says|which says|that reads|with|of|that)\s|\s)(?=\S)|(?:the following|this)\s?:\s?",
    re.IGNORECASE,
)
_ITEMS: Final = re.compile(r"\b(?:items?|names?|entries|list|lines)\b", re.IGNORECASE)
_CONNECTIVE: Final = re.compile(
    r"^(?:(?:with|containing|contains|that says|which says|saying|that reads|reading|holding"
    r"|that contains|which contains"
    r"|having|and (?:put|write|add)|down|me|us|for me|of|that it says|to say|so that it says)\b[\s:,]+)+",
    re.IGNORECASE,
)
_SAVE_IT: Final = re.compile(
    r"[\s,.]+(?:and\s)?(?:then\s)?(?:please\s)?(?:save|put|store|write|keep|place)\s(?:it|this|that"
    r"|them|everything|the \w+)$",
    re.IGNORECASE,
)
_INTO_IT: Final = re.compile(r"\s(?:to|in|into|inside) (?:it|there|that file|the file|this file)$", re.IGNORECASE)
_ANYTHING: Final = re.compile(
    r"(?:(?:something|anything|some|a|an|the|new|empty|blank|text|stuff|it up|words|file|document"
    r"|note|list|content|nothing)\s?)+",
    re.IGNORECASE,
)
RESULT_WORDS: Final = re.compile(
    r"(?:it|that|this|them|(?:that|this|the) (?:same )?(?:sentence|line|quote|answer|text|bit|info|information"
    r"|value|figure|detail|details|one|part"
    r"|phone number|address|date|time|name|amount|price|fact)|(?:that|this) number|what (?:it|you) (?:says?|said"
    r"|found|got)"
    r"|the (?:result|results|answer|output|sum|total|number|numbers|value|product"
    r"|average)|its (?:result|output))(?: (?:down|too|also|as ?well|there))?",
    re.IGNORECASE,
)
_LIST_NAME: Final = re.compile(
    rf"{_KIND_START}(packing|shopping|grocery|guest|reading|wish|to-?do) list\b", re.IGNORECASE
)
_QUOTED_FILLER: Final = re.compile(
    r"[\ue000-\uf8ff]|\b(?:the|this|these|a|an|one|two|three|text|line|lines|sentence|sentences"
    r"|words?|contents?|phrase|quote|and|with|saying"
    r"|says?|that|which|containing|heading|title|header|headline|row|rows|first|second|third|last|body|subject"
    r"|reads?|note|message|items?|names?|following|down|just|only|exactly"
    r"|it|of|in|file|then|also)\b|[\s,.;:&!?]",
    re.IGNORECASE,
)
_NUMBERS: Final = re.compile(
    r"(?:all |the )?(?:the )?numbers (?:from )?(\d{1,6}) (?:to|through|-|until) (\d{1,6})", re.IGNORECASE
)
_MAX_NUMBERS: Final = 999
_MAX_ITEM_WORDS: Final = 5
_PAIR: Final = 2


def _is_placeholder(char: str) -> bool:
    return "\ue000" <= char <= "\uf8ff"


def _parse_quoted(what: str, held: list[str]) -> TextToWrite:
    """Return the quotations, if all other words are fillers; otherwise the words describe the text."""
    if not _QUOTED_FILLER.sub("", what):
        return TextToWrite(content="\n".join(restore_quotations(char, held) for char in what if _is_placeholder(char)))
    if _CREATIVE.match(what):
        return TextToWrite(subject=f"Write {restore_quotations(what, held)}")
    if _FACTUAL.match(what) or _PROGRAM.match(what):
        return TextToWrite(problem="facts" if _FACTUAL.match(what) else "program")
    literal = _LITERAL.match(what)
    return TextToWrite(content=restore_quotations(what[literal.end() :] if literal else what, held))


def _parse_program(what: str, held: list[str], name: str) -> TextToWrite:
    """Return a program for a file: a quoted one, one that prints a text, or a calculation; others are declined."""
    printed = _PRINTS.search(what)
    if printed and name.endswith(".py"):
        text = restore_quotations(printed[1], held).strip(" .")
        is_given = any(_is_placeholder(char) for char in printed[1])
        program = parse_calculation(text) if not is_given else None
        if isinstance(program, str):
            return TextToWrite(content=program)
        if isinstance(program, TooLargeCalculation) or (not is_given and not _HELLO.fullmatch(text)):
            return TextToWrite(problem="program")
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return TextToWrite(content=f'print("{escaped}")\n')
    if any(_is_placeholder(char) for char in what) and not _QUOTED_FILLER.sub("", what):
        return TextToWrite(
            content="\n".join(restore_quotations(char, held) for char in what if _is_placeholder(char)) + "\n"
        )
    return TextToWrite(problem="program" if what.strip() else "what")


_PRINTS: Final = re.compile(
    r"\b(?:prints?|printing|outputs?|shows?|says?|calculates?|computes?)\s(?:out\s)?(.{1,300})$", re.IGNORECASE
)
_HELLO: Final = re.compile(r"hello[\w, !]{0,40}", re.IGNORECASE)


def to_text(text: str, *, is_list: bool) -> str:
    """Return given words as the text of a file; an enumeration with commas becomes one line for each part."""
    text = text.strip(" ,;")
    parts = split_enumeration(text)
    is_list = is_list or (", " in text and (len(parts) > _PAIR or " and " in text))
    if is_list and len(parts) > 1 and all(len(part.split()) <= _MAX_ITEM_WORDS for part in parts):
        return "\n".join(part.rstrip(".") for part in parts)
    return text
