"""Counts tokens with the vocabulary of a model family, in the benchmark-only environment.

It runs as a program: its argument names the vocabulary, each line of standard input is a JSON string, and each line of
output its number of tokens. Modules are imported by name because no other environment has them.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer each line until the input ends."""
    count = _anthropic() if sys.argv[1] == "anthropic" else _splintr(sys.argv[1])
    for line in sys.stdin:
        print(count(json.loads(line)), flush=True)


def _splintr(vocabulary: str) -> Callable[[str], int]:
    splintr: Any = importlib.import_module("splintr")
    tokenizer: Any = splintr.Tokenizer.from_pretrained(vocabulary)
    return lambda text: len(tokenizer.encode(text))


def _anthropic() -> Callable[[str], int]:
    """Return a counter by the tokenizer in Anthropic's package, which is not imported."""
    tokenizers: Any = importlib.import_module("tokenizers")
    spec = importlib.util.find_spec("anthropic")
    if spec is None or spec.origin is None:
        raise SystemExit("the package anthropic is not installed; remove .venv-bench to create it again")
    tokenizer: Any = tokenizers.Tokenizer.from_file(str(Path(spec.origin).with_name("tokenizer.json")))
    return lambda text: len(tokenizer.encode(text).ids)


if __name__ == "__main__":
    main()
