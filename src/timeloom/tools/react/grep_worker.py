"""The program of the child process that searches files line by line if ripgrep is not available.

It runs as a file and imports only the standard library, so that it starts quickly. It reads one JSON object from
standard input and writes each matching line like ripgrep: `/dev/fd/<n>`, NUL, line number, `:` and the line.
"""

import json
import os
import re
import resource
import sys
import warnings
from collections.abc import Iterator
from typing import TypedDict


class WorkerRequest(TypedDict):
    """The pattern, the open files to search and the limits of the result."""

    pattern: str
    ignore_case: bool
    descriptors: list[int]
    hits_per_file: int
    columns: int
    cpu_s: int


def matching_lines(text: str, pattern: re.Pattern[str], most: int) -> Iterator[tuple[int, str]]:
    """Yield the first matching lines with their numbers counted from 1; only line feeds end lines."""
    for number, line in enumerate(text.split("\n"), 1):
        if pattern.search(line):
            yield number, line
            most -= 1
            if not most:
                return


def main() -> None:
    """Execute the request on standard input."""
    order: WorkerRequest = json.load(sys.stdin)
    # If the parent dies without killing this process, the CPU limit ends it.
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
