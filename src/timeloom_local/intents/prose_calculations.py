"""Parses calculations in prose: an expression, or a statistic of numbers that stand anywhere in the message."""

import re
from typing import Final

from timeloom_local.intents.calculation_forms import LAST_RESULT
from timeloom_local.intents.calculations import TooLargeCalculation, parse_calculation
from timeloom_local.intents.expressions import to_digits
from timeloom_local.intents.kinds import CalculateIntent, Intent
from timeloom_local.text_rules import find_file_names, split_message

MAX_NUMBERS: Final = 40
"""Maximum number of numbers of a statistic."""


def parse_prose_calculation(text: str, held: list[str]) -> Intent | None:
    """Parse a calculation whose words stand among others; None if it names a file or quotes a text."""
    if held or find_file_names(text) or not (_CUE.search(text) or _STATISTIC.search(text)):
        return None
    if len(text) > MAX_PROSE_CHARS:
        return None
    digits = to_digits(" ".join(text.split()))
    for pattern in (_PERCENT, _EXPRESSION):
        found = [match[0].strip() for match in pattern.finditer(digits) if _is_expression(match[0])]
        if len(found) == 1 and (program := _program(found[0])):
            return CalculateIntent(program=program)
    if program := _parse_percent_change(_THOUSANDS.sub("", digits)):
        return CalculateIntent(program=program)
    return _parse_statistic(_THOUSANDS.sub("", " ".join(text.split())))


def _parse_percent_change(text: str) -> str:
    """Return the program for one amount and one percentage by which it rises or falls; empty if there are others."""
    percents = [*_A_PERCENT.finditer(text)]
    rest = _A_PERCENT.sub(" ", text)
    amounts = [found[0] for found in _NUMBER.finditer(_DURATION.sub(" ", rest))]
    rises, falls = bool(_RISES.search(text)), bool(_FALLS.search(text))
    if len(percents) != 1 or len(amounts) != 1:
        return ""
    if _TIP.search(text) and not _WITH_TIP.search(text):
        return _program(f"{percents[0][1]}% of {amounts[0]}")
    rises = rises or bool(_TIP.search(text))
    return _program(f"{amounts[0]} {'plus' if rises else 'minus'} {percents[0][1]}%") if rises != falls else ""


def parse_followup(text: str) -> Intent | None:
    """Parse a calculation with the last result, such as `divide that result by 8`; None if it is none."""
    if find_file_names(text) or not _FOLLOWUP.match(text):
        return None
    if _ADDS_TO_IT.search(text):
        return None  # it may be a file
    words, count = _RESULT.subn(_STAND_IN, text, count=1)
    program = _program(words) if count else ""
    return CalculateIntent(program=program.replace(_STAND_IN, LAST_RESULT)) if _STAND_IN in program else None


def _program(asked: str) -> str:
    found = parse_calculation(asked)
    return "" if found is None or isinstance(found, TooLargeCalculation) else found


def _is_expression(text: str) -> bool:
    """Return whether a run of digits and signs is arithmetic, and not a date, a range or a telephone number."""
    if "%" in text or "percent" in text:
        return True
    return bool(re.search(r"[*/+×÷^]|\s[-−x]\s|\b(?:times|plus|minus|divided)\b", text)) and not _DATE.search(text)


def _parse_statistic(text: str) -> Intent | None:
    asked = [*_STATISTIC.finditer(text)]
    kinds = {_KINDS[_WORD.sub("", found[1].lower())] for found in asked if _WORD.sub("", found[1].lower()) in _KINDS}
    numbers = _listed_numbers(text)
    if len(kinds) != 1 or not 2 <= len(numbers) <= MAX_NUMBERS:
        return None
    kind = kinds.pop()
    if kind == "difference":
        if len(numbers) != 2:
            return None
        program = _program(f"difference between {numbers[0]} and {numbers[1]}")
    else:
        program = _program(f"{kind} of {', '.join(numbers)}")
    return CalculateIntent(program=program) if program else None


def _listed_numbers(text: str) -> list[str]:
    """Return the numbers of the one sentence that lists some; none if several sentences do."""
    listings = [found for sentence in split_message(text) if len(found := [*_NUMBER.finditer(sentence)]) > 1]
    if len(listings) != 1:
        return []
    # A count before a list, such as `3 nights at 80, 95 and 110`, is not one of its numbers.
    bare = [at for at, found in enumerate(listings[0]) if _BARE_END.match(found.string, found.end())]
    return [found[0] for found in listings[0][bare[0] if len(bare) >= _MIN_BARE else 0 :]]


MAX_PROSE_CHARS: Final = 600
"""Maximum length of a message that is searched for a calculation."""

_STAND_IN: Final = "70707077"
"""Stands for the last result while the other words are parsed."""
_FOLLOWUP: Final = re.compile(
    r"(?:divide|multiply|add|subtract|take|what(?:'s| is)|calculate|compute|and|times|plus|minus|divided)\b",
    re.IGNORECASE,
)
_ADDS_TO_IT: Final = re.compile(r"^add\b.*\bto (?:it|that|this)\W*$", re.IGNORECASE)
_RESULT: Final = re.compile(
    r"\b(?:(?:that|this|the|your)(?: last)? (?:result|number|answer|sum|total|value|figure|amount)|that|this|it)\b",
    re.IGNORECASE,
)
_A_PERCENT: Final = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?(?:%|percent\b|per cent\b)", re.IGNORECASE)
_DURATION: Final = re.compile(r"\b\d+ (?:years?|months?|weeks?|days?|hours?|people|persons)\b", re.IGNORECASE)
_RISES: Final = re.compile(
    r"\b(?:goes? up|going up|went up|rises?|rising|rose|increas\w+|rais\w+|more|adds?|added|plus|on top|grows?"
    r"|surcharge|vat|sales tax|mark-?up)\b",
    re.IGNORECASE,
)
_FALLS: Final = re.compile(
    r"\b(?:goes? down|going down|went down|falls?|fell|decreas\w+|reduc\w+|less|off|discount\w*|rebate|cheaper|drops?"
    r"|cut|minus|lowered)\b",
    re.IGNORECASE,
)
_TIP: Final = re.compile(r"\btip\b", re.IGNORECASE)
_WITH_TIP: Final = re.compile(
    r"\b(?:total|altogether|in all|with (?:the |a )?(?:[\d.]+\s?(?:%|percent) )?tip|including|pay)\b", re.IGNORECASE
)
_CUE: Final = re.compile(
    r"\b(?:calculate|compute|work(?:ing)? out|figure out|evaluate|what(?:'s| is|s)|how much|how many"
    r"|do the (?:math|maths|sum)"
    r"|program|script|python|solve|tell me|result of|give me|run|comes? to|make)\b|=\s*\?*\s*$",
    re.IGNORECASE,
)
_EXPRESSION: Final = re.compile(
    r"(?<![\w.:/-])\(*-?\d+(?:\.\d+)?\)*(?:\s?(?:\*\*|[-+*/×÷^−x]|times|plus|minus|divided by|multiplied by)\s?"
    r"\(*\d+(?:\.\d+)?\)*)+(?![\w:/-])",
    re.IGNORECASE,
)
_PERCENT: Final = re.compile(
    r"(?<![\w.])\d+(?:\.\d+)?\s?(?:%|percent|per cent) (?:of|off|off of|tip on|tip for) \d+(?:\.\d+)?(?![\w:])",
    re.IGNORECASE,
)
_DATE: Final = re.compile(r"^\(?\d{1,2}\s?[/-]\s?\d{1,2}(?:[/-]\d{2,4})?$|^\d{4}-\d{1,2}")
_STATISTIC: Final = re.compile(
    r"\b(average|mean|median|sum|total|add (?:them|these|those|it|that|all)?\s?(?:all )?(?:up|together)"
    r"|adds? up|altogether|biggest|largest|highest|maximum|max|smallest|lowest|minimum|min"
    r"|difference)\b",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\s(?:them|these|those|it|that|all)(?=\s)|\sall(?=\s)")
_KINDS: Final = {
    "average": "average", "mean": "average", "median": "median", "sum": "sum", "total": "sum", "add up": "sum",
    "adds up": "sum", "add together": "sum", "altogether": "sum", "biggest": "largest",
    "largest": "largest", "highest": "largest", "maximum": "largest", "max": "largest",
    "smallest": "smallest", "lowest": "smallest", "minimum": "smallest", "min": "smallest",
    "difference": "difference",
}  # fmt: skip
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBER: Final = re.compile(r"(?<![\w.:/-])-?\d+(?:\.\d+)?(?![\w/%-]|[.:]\d)")
_BARE_END: Final = re.compile(r"\s?[€$£]?\s?(?:[,;.!?)]|$|and\b|plus\b|or\b|-)", re.IGNORECASE)
_MIN_BARE: Final = 3
