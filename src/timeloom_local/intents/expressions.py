"""Parses numbers, also in words, and arithmetic expressions."""

import re
from collections.abc import Iterator
from typing import Final

MAX_POWER: Final = 400
"""Largest exponent and factorial; larger ones print hundreds of digits."""


class NoNumberError(Exception):
    """A text is not a number or an expression."""


class TooLargeNumberError(Exception):
    """A number is beyond the bounds."""


def to_digits(text: str) -> str:
    """Return the text with digits for number words, and without separators of thousands."""
    text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)
    return _WORD_NUMBER.sub(_number_of_words, text)


def parse_expression(text: str) -> str:
    """Return an arithmetic expression in Python; raise if the text is none, or only a number."""
    for pattern, symbol in _OPERATOR_WORDS:
        text = re.sub(pattern, symbol, text, flags=re.IGNORECASE)
    tokens = list(_tokens(text))
    if not any(token in "**//%+-" for token in tokens[1:]):
        raise NoNumberError
    expression = " ".join(tokens).replace("( ", "(").replace(" )", ")")
    _check_expression(expression, tokens)
    return expression


def _number(text: str) -> str:
    """Return a number as Python reads it."""
    if len(text) > _MAX_DIGITS:
        raise TooLargeNumberError
    text = text.lstrip("0") or "0"
    return f"0{text}" if text.startswith(".") else text


def bounded(text: str, most: int) -> int:
    """Return a whole number; raise if it is larger than `most`."""
    number = int(text)
    if number > most:
        raise TooLargeNumberError
    return number


def parse_numbers(text: str) -> list[str]:
    """Return the numbers of an enumeration; raise if it has anything else."""
    parts = [part for part in re.split(r"[\s,;&]+(?:and\s+)?", text.strip()) if part]
    if len(parts) < _MIN_NUMBERS or not all(re.fullmatch(r"-?\d+(?:\.\d+)?", part) for part in parts):
        raise NoNumberError
    return [f"-{_number(part[1:])}" if part.startswith("-") else _number(part) for part in parts]


def parse_number(text: str) -> str:
    """Return one number as Python reads it; raise if the text is none."""
    return parse_numbers(f"{text} 0")[0]


_UNITS: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


_NUMBER_WORDS: Final = {
    **{word: n for n, word in enumerate(_UNITS)}, **{word: 10 * n for n, word in enumerate(_TENS, 2)}, "dozen": 12,
}  # fmt: skip


_SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}


_NUMBER_WORD: Final = rf"(?:{'|'.join([*_NUMBER_WORDS, *_SCALES])})"


_WORD_NUMBER: Final = re.compile(
    rf"\b(?:an? (?={'|'.join([*_SCALES, 'dozen'])}))?{_NUMBER_WORD}"
    rf"(?:(?:[\s-]|(?:(?<=hundred)|(?<=thousand)) and ){_NUMBER_WORD})*\b",
    re.IGNORECASE,
)


_OPERATOR_WORDS: Final = (
    (r"\b(?:multiplied by|times)\b|[×·]|(?<=[\d)])\s*x\s*(?=[\d(])", "*"),
    (r"\bdivided by\b|÷|\bover\b", "/"),
    (r"\bplus\b|\badded to\b", "+"),
    (r"\bminus\b|[−–]|\bless\b", "-"),
    (r"\b(?:to the power of|raised to(?: the power(?: of)?)?)\b|\^", "**"),
    (r"\bsquared\b", "**2"),
    (r"\bcubed\b", "**3"),
    (r"\bmod(?:ulo)?\b", "%"),
    (r"[€$£]", ""),
)


_TOKEN: Final = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|(\*\*|//|[-+*/%()]))")


_THOUSANDS: Final = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d,])")


def _number_of_words(found: re.Match[str]) -> str:
    words = [word for word in re.split(r"[\s-]+", found[0].lower()) if word not in ("and", "a", "an")]
    total = part = 0
    for word in words:
        if word in _NUMBER_WORDS:
            if part % 10 or (part % 100 and _NUMBER_WORDS[word] > _MAX_DIGIT):
                return " ".join(str(_NUMBER_WORDS.get(each, _SCALES.get(each))) for each in words)
            part += _NUMBER_WORDS[word]
        elif word == "hundred":
            part = max(part, 1) * 100
        else:
            total, part = total + max(part, 1) * _SCALES[word], 0
    return str(total + part)


_MAX_DIGIT: Final = 9


def _tokens(text: str) -> Iterator[str]:
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise NoNumberError
        yield _number(found[1]) if found[1] else found[2]
        at = found.end()


def _check_expression(expression: str, tokens: list[str]) -> None:
    try:
        compile(expression, "expression", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoNumberError from None
    for at, token in enumerate(tokens):
        if token == "**":
            exponent = tokens[at + 1] if at + 1 < len(tokens) else ""
            # A tower of powers, or a power of an expression in brackets, may be of any size.
            if "**" in tokens[at + 1 :] or not exponent.isdigit() or tokens[at - 1] == ")":
                raise TooLargeNumberError
            bounded(exponent, MAX_POWER)


_MAX_DIGITS: Final = 40


_MIN_NUMBERS: Final = 2
