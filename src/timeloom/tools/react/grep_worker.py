"""Scanning files for a pattern line by line: the program of the child process that `search` starts and may kill.

It is run as a file and imports the standard library alone, so that it starts quickly. One JSON object stands on
standard input; each line that matches is written as `/dev/fd/<n>`, NUL, its number, `:` and the line, as ripgrep does.
"""

import json
import os
import re
import resource
import sys
import warnings
from collections.abc import Iterator
from typing import TypedDict


class Order(TypedDict):
    """What to look for, in which open files, and how much to say of it."""

    pattern: str
    ignore_case: bool
    descriptors: list[int]
    hits_per_file: int
    columns: int
    cpu_s: int


def matching_lines(text: str, pattern: re.Pattern[str], most: int) -> Iterator[tuple[int, str]]:
    """The first lines that match, with their numbers from 1; only line feeds end lines."""
    for number, line in enumerate(text.split("\n"), 1):
        if pattern.search(line):
            yield number, line
            most -= 1
            if not most:
                return


def main() -> None:
    """Carries out the order on standard input."""
    order: Order = json.load(sys.stdin)
    # Whoever started this may die without killing it; the system then does.
    resource.setrlimit(resource.RLIMIT_CPU, (order["cpu_s"], order["cpu_s"] + 1))
    warnings.simplefilter("ignore")
    pattern = re.compile(order["pattern"], re.IGNORECASE if order["ignore_case"] else 0)
    out = sys.stdout.buffer
    for descriptor in order["descriptors"]:
        with os.fdopen(descriptor, "rb") as file:
            text = file.read().decode("utf-8", "replace")
        for number, line in matching_lines(text, pattern, order["hits_per_file"]):
            shown = line[: order["columns"]].rstrip("\r").encode("utf-8", "replace")
            out.write(b"/dev/fd/%d\0%d:%b\n" % (descriptor, number, shown))
        out.flush()


if __name__ == "__main__":
    main()
