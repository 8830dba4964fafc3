"""The forms of small calculations, with the programs that carry them out."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from timeloom_local.intents.expressions import (
    MAX_POWER,
    NoNumberError,
    TooLargeNumberError,
    bounded,
    parse_number,
    parse_numbers,
)

MAX_COUNT: Final = 1_000
"""Largest count of numbers that a program prints or adds one by one."""


FILE_TEXT: Final = "FILE_TEXT"
"""Stands for the text of a file in a program."""


LAST_RESULT: Final = "LAST_RESULT"
"""Stands for the number that the last program printed."""


def print_value(expression: str) -> str:
    """Return the program that prints the value of an expression."""
    is_whole = not re.search(r"(?<!/)/(?!/)|\d\.\d|math\.|statistics\.", expression)
    imports = "".join(f"import {name}\n" for name in ("math", "statistics") if f"{name}." in expression)
    if is_whole:
        return f"{imports}print({expression})\n"
    return f'{imports}result = {expression}\nprint(f"{{result:.12g}}" if isinstance(result, float) else result)\n'


AGGREGATES: Final = {
    "sum": "sum", "total": "sum", "add": "sum", "average": "statistics.mean", "mean": "statistics.mean",
    "median": "statistics.median", "product": "math.prod", "multiply": "math.prod", "largest": "max", "maximum": "max",
    "max": "max", "highest": "max", "biggest": "max", "smallest": "min", "minimum": "min", "min": "min",
    "lowest": "min", "greatest": "math.gcd", "gcd": "math.gcd", "least": "math.lcm", "lcm": "math.lcm",
}  # fmt: skip


def _aggregate(found: re.Match[str]) -> str:
    function = AGGREGATES[found[1].lower().split()[0]]
    numbers = ", ".join(parse_numbers(found[2]))
    inside = numbers if function in ("math.gcd", "math.lcm") else f"[{numbers}]"
    return print_value(f"{function}({inside})")


def _percent(found: re.Match[str]) -> str:
    return print_value(f"{parse_number(found[2])} * {parse_number(found[1])} / 100")


def _more_percent(found: re.Match[str]) -> str:
    sign = "-" if found[2].lower() in ("minus", "-", "less") else "+"
    return print_value(f"{parse_number(found[1])} * (100 {sign} {parse_number(found[3])}) / 100")


def _off_percent(found: re.Match[str]) -> str:
    return print_value(f"{parse_number(found[2])} * (100 - {parse_number(found[1])}) / 100")


def _function(name: str) -> Callable[[re.Match[str]], str]:
    return lambda found: print_value(f"{name}({parse_number(found[1])})")


def _root(found: re.Match[str]) -> str:
    number = parse_number(found[1])
    return f"import math\nroot = math.sqrt({number})\nprint(int(root) if root == int(root) else root)\n"


def _factorial(found: re.Match[str]) -> str:
    return print_value(f"math.factorial({bounded(parse_number(found[1]), MAX_POWER)})")


def _range_sum(found: re.Match[str]) -> str:
    first, last = bounded(parse_number(found[2]), 10**9), bounded(parse_number(found[3]), 10**9)
    step = {"even": " if n % 2 == 0", "odd": " if n % 2"}.get((found[1] or "").strip().lower(), "")
    if last - first > _MAX_RANGE:
        raise TooLargeNumberError
    return print_value(f"sum(n for n in range({first}, {last} + 1){step})")


def _first_sum(found: re.Match[str]) -> str:
    count = bounded(parse_number(found[1]), MAX_COUNT)
    match (found[2] or "").strip().lower():
        case "even":
            return print_value(f"sum(range(2, 2 * {count} + 1, 2))")
        case "odd":
            return print_value(f"sum(range(1, 2 * {count}, 2))")
        case "prime":
            return f"{_PRIMES}print(sum(first_primes({count})))\n"
        case _:
            return print_value(f"sum(range(1, {count} + 1))")


def _first_numbers(found: re.Match[str]) -> str:
    count = bounded(parse_number(found[1]), MAX_COUNT)
    kind = found[2].strip().lower()
    if kind.startswith("prime"):
        return f"{_PRIMES}print(*first_primes({count}), sep=', ')\n"
    if kind.startswith("fib"):
        return f"{_FIBONACCI}print(*fibonacci({count}), sep=', ')\n"
    formula = next(text for word, text in _SERIES.items() if kind.startswith(word))
    return f"print(*({formula} for n in range(1, {count} + 1)), sep=', ')\n"


def _primes_below(found: re.Match[str]) -> str:
    most = bounded(parse_number(found[2]), 10_000)
    end = most if found[1].lower() in ("below", "under", "less than", "smaller than") else most + 1
    return f"print(*(n for n in range(2, {end}) if all(n % d for d in range(2, int(n**0.5) + 1))), sep=', ')\n"


def _is_prime(found: re.Match[str]) -> str:
    number = bounded(parse_number(found[1]), 10**12)
    return (
        f"number = {number}\nprime = number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))\n"
        "print(f\"{number} is {'a' if prime else 'not a'} prime number\")\n"
    )


def _nth_fibonacci(found: re.Match[str]) -> str:
    return f"{_FIBONACCI}print(fibonacci({bounded(parse_number(found[1]), MAX_POWER)})[-1])\n"


def _count_up(found: re.Match[str]) -> str:
    first, last = bounded(parse_number(found[1]), 10**6), bounded(parse_number(found[2]), 10**6)
    if last - first > MAX_COUNT:
        raise TooLargeNumberError
    return f"print(*range({first}, {last} + 1), sep=', ')\n"


def _table(found: re.Match[str]) -> str:
    number = parse_number(found[1])
    return f'for n in range(1, 11):\n    print(f"{{n}} x {number} = {{n * {number}}}")\n'


def _two(template: str) -> Callable[[re.Match[str]], str]:
    return lambda found: print_value(template.format(parse_number(found[1]), parse_number(found[2])))


def _temperature(found: re.Match[str]) -> str:
    number = parse_number(found[1])
    is_celsius = found[2].lower().startswith("c")
    return print_value(f"{number} * 9 / 5 + 32" if is_celsius else f"({number} - 32) * 5 / 9")


def _convert(number: str, unit: str, target: str) -> str:
    left, right = _UNIT_FACTORS.get(_unit(unit)), _UNIT_FACTORS.get(_unit(target))
    if left is None or right is None or left[0] != right[0]:
        raise NoNumberError
    return print_value(f"{parse_number(number)} * {left[1]} / {right[1]}")


def _unit(word: str) -> str:
    word = word.lower()
    return _UNIT_NAMES.get(word, word.removesuffix("s"))


_UNIT_NAMES: Final = {
    "feet": "foot",
    "inches": "inch",
    "centuries": "century",
    "lbs": "pound",
    "kilos": "kilogram",
    "hrs": "hour",
    "mins": "minute",
    "secs": "second",
}


_UNIT_FACTORS: Final = {
    "second": ("time", "1"), "minute": ("time", "60"), "hour": ("time", "3600"), "day": ("time", "86400"),
    "week": ("time", "604800"), "km": ("length", "1000"), "kilometer": ("length", "1000"),
    "kilometre": ("length", "1000"),
    "mile": ("length", "1609.344"), "meter": ("length", "1"), "metre": ("length", "1"), "foot": ("length", "0.3048"),
    "inch": ("length", "0.0254"), "cm": ("length", "0.01"), "centimeter": ("length", "0.01"),
    "yard": ("length", "0.9144"),
    "kg": ("mass", "1"), "kilogram": ("mass", "1"), "pound": ("mass", "0.45359237"), "gram": ("mass", "0.001"),
    "ounce": ("mass", "0.028349523125"), "month": ("months", "1"), "year": ("months", "12"),
}  # fmt: skip


_PRIMES: Final = (
    "def first_primes(count):\n    found, number = [], 2\n    while len(found) < count:\n"
    "        if all(number % prime for prime in found if prime * prime <= number):\n            found.append(number)\n"
    "        number += 1\n    return found\n\n\n"
)


_FIBONACCI: Final = (
    "def fibonacci(count):\n    numbers = [0, 1]\n    while len(numbers) < count:\n"
    "        numbers.append(numbers[-1] + numbers[-2])\n    return numbers[:count]\n\n\n"
)


_SERIES: Final = {
    "square": "n * n",
    "cube": "n**3",
    "even": "2 * n",
    "odd": "2 * n - 1",
    "power": "2**n",
    "natural": "n",
    "whole": "n",
    "positive": "n",
}


_MAX_RANGE: Final = 10_000_000


def _text_of(found: re.Match[str], group: int = 1) -> str:
    text = found[group].strip(" \"'“”`")
    if not text or len(text) > _MAX_TEXT_CHARS:
        raise NoNumberError
    return repr(text)


_MAX_TEXT_CHARS: Final = 200


def _count_letters(found: re.Match[str]) -> str:
    letter = found[1].strip("\"'“”` ").lower()
    return f"print({_text_of(found, 2)}.lower().count({letter[:1]!r}))\n"


def _count_in_text(found: re.Match[str]) -> str:
    kind = found[1].lower()
    if kind.startswith("word"):
        return f"print(len({_text_of(found, 2)}.split()))\n"
    if kind.startswith("letter"):
        return f"print(sum(char.isalpha() for char in {_text_of(found, 2)}))\n"
    return f"print(len({_text_of(found, 2)}))\n"


def file_numbers_program(function: str) -> str:
    """Return the program for a statistic of the numbers in a file."""
    module = function.partition(".")[0] if "." in function else ""
    return (
        f"import re\n{f'import {module}' + chr(10) if module else ''}\ntext = {FILE_TEXT}\n"
        'numbers = [float(number) for number in re.findall(r"(?<![\\w.])-?\\d+(?:\\.\\d+)?", text)]\n'
        f'print("numbers:", *(f"{{number:.12g}}" for number in numbers))\nprint("result:", '
        f'f"{{{function}(numbers):.12g}}")\n'
    )


def file_count_program(kind: str) -> str:
    """Return the program that counts words, lines or items of a file."""
    if kind.startswith("word"):
        return f"text = {FILE_TEXT}\nprint(len(text.split()))\n"
    if kind.startswith(("character", "letter")):
        return f"text = {FILE_TEXT}\nprint(len(text))\n"
    if kind.startswith(("line", "row")):
        return f"text = {FILE_TEXT}\nprint(len(text.splitlines()))\n"
    return (
        f"text = {FILE_TEXT}\nlines = [line for line in text.splitlines() if line.strip() and not "
        f'line.startswith("#")]\n'
        "print(len(lines))\n"
    )


ProgramMaker = Callable[[re.Match[str]], str]


def _compile_forms(forms: Sequence[tuple[str, ProgramMaker]]) -> tuple[tuple[re.Pattern[str], ProgramMaker], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), make) for pattern, make in forms)


_N: Final = r"(-?\d+(?:\.\d+)?)"


_LIST: Final = r"(.{3,250})"


FORMS: Final = _compile_forms(
    (
        (rf"{_N}\s?(?:%|percent|per cent) of {_N}", _percent),
        (rf"{_N}\s?(plus|minus|\+|-|less)\s?{_N}\s?(?:%|percent)", _more_percent),
        (rf"{_N}\s?(?:%|percent) off (?:of )?{_N}", _off_percent),
        (rf"(?:a )?{_N}\s?(?:%|percent) tip (?:on|for) {_N}", _percent),
        (rf"(?:(?:square )?root of|sqrt) ?\(?{_N}\)?", _root),
        (rf"(?:factorial of )?{_N} ?(?:!|factorial)", _factorial),
        (rf"add {_N} (?:to|and) {_N}", _two("{0} + {1}")),
        (rf"factorial of {_N}", _factorial),
        (rf"square of {_N}", lambda found: print_value(f"{parse_number(found[1])} ** 2")),
        (rf"cube of {_N}", lambda found: print_value(f"{parse_number(found[1])} ** 3")),
        (
            r"(\d{1,4})(?:st|nd|rd|th) prime(?: number)?",
            lambda found: f"{_PRIMES}print(first_primes({bounded(found[1], MAX_COUNT)})[-1])\n",
        ),
        (
            r"counts? (?:up )?(?:from 1 )?to (\d{1,6})",
            lambda found: f"print(*range(1, {bounded(found[1], MAX_COUNT)} + 1), sep=', ')\n",
        ),
        (
            (
                rf"(?:sum|total|add(?:s|ing)?(?: up)?)(?: of)?(?: up)?(?: all)?(?: the)?( even| odd)?(?: whole"
                rf"| natural)?(?: numbers| integers)? (?:from |between )?{_N} (?:to|through|up to|until"
                rf"|-) {_N}(?: inclusive)?"
            ),
            _range_sum,
        ),
        (
            (
                rf"(?:sum|total|add(?:s|ing)?(?: up)?)(?: of)?(?: up)?(?: all)?(?: the)?( even| odd)?(?: whole"
                rf"| natural)? (?:numbers|integers) between {_N} and {_N}"
            ),
            _range_sum,
        ),
        (
            (
                rf"(?:sum|total|add(?:s|ing)?(?: up)?)(?: of)?(?: up)?(?: all)?(?: the)? first {_N}( even| odd"
                rf"| prime| natural| whole| positive)?(?: numbers| integers)?"
            ),
            _first_sum,
        ),
        (
            (
                rf"(sum|total|average|mean|median|product|largest|maximum|max|highest|biggest|smallest|minimum"
                rf"|min|lowest|greatest common divisor|gcd|least common multiple|lcm)(?: number)? (?:of|among"
                rf"|between|in|for)(?: the numbers)?:? {_LIST}"
            ),
            _aggregate,
        ),
        (rf"(sum|add|total|average|multiply|median)s?(?: up)?(?: the numbers| these numbers)?:? {_LIST}", _aggregate),
        (
            (
                rf"first {_N} (prime|fibonacci|square|cube|even|odd|natural|whole|positive)s?(?: numbers?"
                rf"| integers?)?(?: numbers)?(?: of the fibonacci (?:sequence|series))?"
            ),
            _first_numbers,
        ),
        (rf"prime(?: number)?s (below|under|up to|less than|smaller than|until|to) {_N}", _primes_below),
        (rf"(?:whether |if )?(?:is )?{_N}(?: is)?(?: a)? prime(?: number)?", _is_prime),
        (r"(\d{1,4})(?:st|nd|rd|th) fibonacci(?: number)?", _nth_fibonacci),
        (rf"(?:numbers |count )?(?:count )?from {_N} to {_N}", _count_up),
        (rf"(?:multiplication |times )table (?:of|for) {_N}", _table),
        (rf"multiply {_N} (?:by|with|and|times) {_N}", _two("{0} * {1}")),
        (rf"divide {_N} by {_N}", _two("{0} / {1}")),
        (rf"subtract {_N} from {_N}", _two("{1} - {0}")),
        (rf"difference (?:between|of) {_N} and {_N}", _two("abs({0} - {1})")),
        (rf"remainder of {_N} divided by {_N}", _two("{0} % {1}")),
        (rf"double (?:of )?{_N}", _function("2 * ")),
        (rf"half (?:of )?{_N}", _function("0.5 * ")),
        (
            (
                rf"(?:convert )?{_N}\s?(?:°|degrees )?\s?(celsius|c|fahrenheit|f) (?:to|in|into) (?:°"
                rf"|degrees )?(?:celsius|c|fahrenheit|f)"
            ),
            _temperature,
        ),
        (rf"(?:convert )?{_N} ([a-z]+) (?:to|in|into) ([a-z]+)", lambda found: _convert(found[1], found[2], found[3])),
        (
            (
                rf"how many ([a-z]+) (?:are|is|are there|do we have)?\s?(?:there )?(?:in"
                rf"|make) (?:an? )?{_N} ([a-z]+)"
            ),
            lambda found: _convert(found[2], found[3], found[1]),
        ),
        (
            r"how many ([a-z]+) (?:are|is|are there)?\s?(?:there )?(?:in|make) an? ([a-z]+)",
            lambda found: _convert("1", found[2], found[1]),
        ),
    )
)
"""Forms of calculations with the function that builds the program of each."""


TEXT_FORMS: Final = _compile_forms(
    (
        (
            (
                r"(?:how many|count(?: how many)?|number of)(?: times)?(?: the)?(?: letters?)? "
                r"[\"'“]?([a-z])[\"'”]?(?:'?s)?(?: are)?(?: there)?(?: does)?(?: appear)? (?:in"
                r"|of)(?: the word)? ([\"'“\w][\w'”\" -]{1,60})"
            ),
            _count_letters,
        ),
        (
            (
                r"(?:how many|count(?: the)?|number of) (words|letters|characters)(?: are)?(?: there)? (?:in"
                r"|of)(?: the (?:word|sentence|text|phrase))? ([\"'“].{1,200})"
            ),
            _count_in_text,
        ),
        (
            r"reverse(?: of)?(?: the (?:word|text|string))? ([\"'“].{1,200})",
            lambda found: f"print({_text_of(found)}[::-1])\n",
        ),
    )
)
"""Forms of calculations with letters and words."""
