"""Tokenizes text with the WordPiece algorithm of uncased BERT models."""

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

MAX_WORD_CHARS: Final = 100
"""Longest word that is looked up; a longer one becomes the unknown token."""


class WordPieceTokenizer:
    """A WordPiece tokenizer with its vocabulary."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._unknown, self._begin, self._end = (vocabulary[name] for name in ("[UNK]", "[CLS]", "[SEP]"))

    @classmethod
    def from_file(cls, path: Path) -> "WordPieceTokenizer":
        """Load the vocabulary from a file with one piece per line."""
        lines = path.read_text(encoding="utf-8").split("\n")
        return cls({piece: number for number, piece in enumerate(lines) if piece})

    def encode(self, text: str, limit: int) -> list[int]:
        """Return the token ids of the text with the tokens for beginning and end, at most `limit` in all."""
        found = [self._begin]
        for word in _split_words(text):
            found += self._encode_word(word)
            if len(found) >= limit:
                break
        return [*found[: limit - 1], self._end]

    def _encode_word(self, word: str) -> list[int]:
        """Split a word into its longest pieces from left to right; the unknown token if a part has none."""
        if len(word) > MAX_WORD_CHARS:
            return [self._unknown]
        found: list[int] = []
        at = 0
        while at < len(word):
            mark = "##" if at else ""
            ends = range(len(word), at, -1)
            end = next((end for end in ends if mark + word[at:end] in self._vocabulary), None)
            if end is None:
                return [self._unknown]
            found.append(self._vocabulary[mark + word[at:end]])
            at = end
        return found


def _split_words(text: str) -> Iterator[str]:
    """Yield the words in lower case without accents; each punctuation mark, symbol or ideograph is a word."""
    plain = unicodedata.normalize("NFD", text.lower())
    word = ""
    for char in plain:
        category = unicodedata.category(char)
        if category == "Mn":
            continue
        alone = category[0] in "PS" or 0x4E00 <= ord(char) <= 0x9FFF
        if (alone or char.isspace() or category[0] == "C") and word:
            yield word
            word = ""
        if alone:
            yield char
        elif not char.isspace() and category[0] != "C":
            word += char
    if word:
        yield word
