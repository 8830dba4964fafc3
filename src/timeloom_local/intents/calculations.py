"""Parses small calculations and writes the programs that carry them out."""

import contextlib
import re
from typing import Final

import msgspec

from timeloom_local.intents.calculation_forms import (
    AGGREGATES,
    FORMS,
    TEXT_FORMS,
    file_count_program,
    file_numbers_program,
    print_value,
)
from timeloom_local.intents.expressions import (
    NoNumberError,
    TooLargeNumberError,
    parse_expression,
    to_digits,
)

MAX_EXPRESSION_CHARS: Final = 300


class TooLargeCalculation(msgspec.Struct, frozen=True):
    """A calculation whose numbers are too large."""


def parse_calculation(text: str) -> str | TooLargeCalculation | None:
    """Return the program for the calculation that a text asks for; None if it asks for none that is known."""
    asked = _strip_request(text)
    if _NO_EXPRESSION.fullmatch(asked):
        return None
    if (printed := _PRINTED.fullmatch(asked)) and asks_for_program(text):
        return f"print({printed[1].strip(_QUOTES)!r})\n"
    digits = to_digits(asked)
    forms = [*((pattern, make, asked) for pattern, make in TEXT_FORMS), *((*form, digits) for form in FORMS)]
    try:
        for pattern, make, words in forms:
            found = pattern.fullmatch(words)
            with contextlib.suppress(NoNumberError):
                if found:
                    return make(found)
        return print_value(parse_expression(digits))
    except TooLargeNumberError:
        return TooLargeCalculation()
    except NoNumberError:
        return None


def parse_file_calculation(text: str) -> str | None:
    """Return the program for a calculation with the numbers, words or lines of a file; None if it is none."""
    asked = _strip_request(text)
    if found := _FILE_NUMBERS.fullmatch(asked):
        return file_numbers_program(AGGREGATES[found[1].lower().split()[0]])
    if found := _FILE_COUNT.fullmatch(asked):
        return file_count_program(found[1].lower())
    return None


def asks_for_program(text: str) -> bool:
    """Return whether the text asks to run a program."""
    return bool(_WITH_PROGRAM.search(text) or _RUN.match(text))


_A_PROGRAM: Final = (
    r"(?:(?:a|some|the|your)\s)?(?:(?:small|little|short|quick|simple|tiny|real|python)\s){0,2}(?:program"
    r"|script|code|python)(?:\scode|\sprogram)?"
)


_WITH_PROGRAM: Final = re.compile(
    rf"[,\s]*\b(?:with|using|by running|by means of|in|via|through)\s(?:the help of\s)?{_A_PROGRAM}(?=[\s,.?!]|$)",
    re.IGNORECASE,
)


_RUN: Final = re.compile(
    rf"^(?:(?:write and )?(?:run|execute|use|start|make|write"
    rf"|create)\s(?:and run\s)?{_A_PROGRAM}(?:\sand run it)?)[\s,:]*"
    r"(?:(?:that|which|to|for|and)\s)?",
    re.IGNORECASE,
)


_VERB: Final = re.compile(
    r"^(?:(?:please|can you|could you|will|would)\s)*(?:(?:calculates?|computes?|evaluates?"
    r"|work(?:s)? out|figure out|find(?:s)?(?: out)?"
    r"|determines?|solves?|gives?(?: me)?|tell(?:s)? me|show(?:s)?(?: me)?|prints?(?: out)?|outputs?"
    r"|lists?|get(?:s)?(?: me)?|return(?:s)?"
    r"|do(?:es)?|generates?|what's|whats|what is|what are|what do you get (?:if|when) you|how much is"
    r"|how much are|how much do|how many is"
    r"|how many are|the result of|the value of|the answer to|all|all the|me|this|it)\b\s*:?\s*)*",
    re.IGNORECASE,
)


_TAIL: Final = re.compile(
    r"(?:\s*(?:=\s*\?*|equals?(?: what)?|(?:and )?(?:print|show|tell|give)(?: me)?(?: the)? (?:it"
    r"|result|answer|output)(?: to me)?"
    r"|(?:and )?run it|please|for me|together|in total|altogether|exactly|be|is|make)|[?.,]|(?<!\d)!)+$",
    re.IGNORECASE,
)


def _strip_request(text: str) -> str:
    """Return the words of the calculation alone."""
    text = " ".join(text[:MAX_EXPRESSION_CHARS].split())
    before = ""
    while text != before:
        before = text
        text = _WITH_PROGRAM.sub(" ", text).strip()
        text = _RUN.sub("", text)
        text = _TAIL.sub("", _VERB.sub("", text)).strip(" ,:")
    return re.sub(r"^the\s", "", text, flags=re.IGNORECASE)


_NO_EXPRESSION: Final = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}/\d{1,2}/\d{2,4}|[\d ]*\d{3}-\d{4}")
"""Dates and telephone numbers, which are not differences."""


_QUOTES: Final = "\"'“”`"


_PRINTED: Final = re.compile(r"(hello[\w, !]{0,30}|[\"“][^\"”\n]{1,200}[\"”])", re.IGNORECASE)


_FILE_NUMBERS: Final = re.compile(
    r"(sum|total|add|average|mean|median|largest|maximum|max|highest|biggest|smallest|minimum|min|lowest)s?"
    r"(?: (?:up|number|value|of|all|the|numbers|values|prices|amounts|costs|figures|expenses|everything|together))*",
    re.IGNORECASE,
)


_FILE_COUNT: Final = re.compile(
    r"(?:how many|count(?:s)?(?: the| how many| all)*|(?:the )?number of) "
    r"(lines|words|characters|letters|items|names|entries|things|rows|people|guests|tasks|points"
    r"|steps)(?: are| there| is|are there)*",
    re.IGNORECASE,
)
