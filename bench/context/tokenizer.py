"""Counts tokens in a separate process, as a provider counts them: not with timeloom's estimate."""

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, Literal

from timeloom.core.tokens import estimate_tokens

PROGRAM: Final = Path(__file__).with_name("tokenizer_side.py")

CountTokens = Callable[[str], int]

Vocabulary = Literal["llama3", "anthropic"]
"""`llama3` is not the one that timeloom's estimate was fitted to, so that its errors show. `anthropic` is published."""


def open_tokenizer(python: Path | None, vocabulary: Vocabulary = "llama3") -> CountTokens:
    """Return a counter that uses a tokenizer of the benchmark-only environment; without it, timeloom's estimate."""
    if python is None:
        return cache(estimate_tokens)
    # Cached, because the same text is in every later request.
    return cache(_TokenizerProcess(python, vocabulary).count)


class _TokenizerProcess:
    """The process lives as long as this one: its input is closed then."""

    def __init__(self, python: Path, vocabulary: Vocabulary) -> None:
        command = [str(python), "-I", str(PROGRAM), vocabulary]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        asks, answers = self._process.stdin, self._process.stdout
        assert asks is not None
        assert answers is not None
        # JSON has no line breaks, and escapes lone surrogates, which the tokenizer gets as replacement characters.
        asks.write(json.dumps(text.encode("utf-8", "replace").decode()) + "\n")
        asks.flush()
        return int(answers.readline())
