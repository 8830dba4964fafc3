"""Counts tokens with the vocabulary of another model family, in the benchmark-only environment.

It runs as a program: each line of standard input is a JSON string, and each line of output its number of tokens. The
module is imported by name because no other environment has it.
"""

import importlib
import json
import sys
from typing import Any

VOCABULARY = "llama3"
"""Not the one that timeloom's estimate was fitted to, so that its errors show."""


def main() -> None:
    """Answer each line until the input ends."""
    splintr: Any = importlib.import_module("splintr")
    tokenizer: Any = splintr.Tokenizer.from_pretrained(VOCABULARY)
    for line in sys.stdin:
        print(len(tokenizer.encode(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
