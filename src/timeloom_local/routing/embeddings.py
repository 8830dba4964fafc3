"""Computes sentence embeddings with the MiniLM model (six layers), in numpy."""

import importlib
import itertools
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from timeloom_local.routing.wordpiece import WordPieceTokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

MAX_PIECES: Final = 64
"""Maximum number of tokens of a text; later ones add little to the meaning of a request."""

LAYERS: Final = 6
HEADS: Final = 12


class SentenceModel:
    """Computes unit vectors of texts; their dot product is the similarity, 1 for equal and about 0 for unrelated."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = WordPieceTokenizer.from_file(folder / "vocab.txt")
        # Any: numpy is an optional dependency that is imported here.
        self._np: Any = _import_numpy()
        self._weights = _read_safetensors(folder / "model.safetensors", self._np)
        self._cache: dict[str, Vector] = {}

    def vectors(self, texts: Sequence[str]) -> "list[Vector]":
        """Return the vectors of the texts; vectors are cached."""
        if len(self._cache) > _MAX_CACHED:
            self._cache.clear()
        fresh = [text for text in dict.fromkeys(texts) if text not in self._cache]
        for start in range(0, len(fresh), _BATCH_SIZE):
            some = fresh[start : start + _BATCH_SIZE]
            self._cache.update(zip(some, self._compute_vectors(some), strict=True))
        return [self._cache[text] for text in texts]

    def similarity(self, left: str, right: str) -> float:
        """Return the similarity of two texts."""
        one, other = self.vectors([left, right])
        return float(one @ other)

    def _compute_vectors(self, texts: Sequence[str]) -> "list[Vector]":
        # All texts pass a layer as one array, because few large products are much faster than many small ones.
        np, weights = self._np, self._weights
        numbers = [self._tokenizer.encode(text, MAX_PIECES) for text in texts]
        ends = [0, *itertools.accumulate(map(len, numbers))]
        spans = [slice(*pair) for pair in itertools.pairwise(ends)]
        states = weights["embeddings.word_embeddings.weight"][list(itertools.chain(*numbers))]
        places = list(itertools.chain(*(range(len(some)) for some in numbers)))
        states = states + weights["embeddings.position_embeddings.weight"][places]
        states = self._normalize_layer(
            states + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
        )
        for layer in range(LAYERS):
            states = self._layer(states, spans, f"encoder.layer.{layer}.")
        means = [states[span].mean(0) for span in spans]
        return [mean / np.linalg.norm(mean) for mean in means]

    def _layer(self, states: "Vector", spans: Sequence[slice], name: str) -> "Vector":
        np = self._np
        parts = [self._dense(states, f"{name}attention.self.{part}") for part in ("query", "key", "value")]
        seen = np.concatenate([self._attend(*(part[span] for part in parts)) for span in spans])
        joined = self._dense(seen, f"{name}attention.output.dense")
        states = self._normalize_layer(states + joined, f"{name}attention.output.LayerNorm")
        inner = self._dense(states, f"{name}intermediate.dense")
        # The tanh approximation of GELU; it gives the same ranking.
        inner = inner * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner * inner * inner)))
        return self._normalize_layer(states + self._dense(inner, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _attend(self, query: "Vector", key: "Vector", value: "Vector") -> "Vector":
        """Compute the self-attention of one text."""
        q, k, v = (part.reshape(len(part), HEADS, -1).transpose(1, 0, 2) for part in (query, key, value))
        weights = self._np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]))
        seen = (weights / weights.sum(-1, keepdims=True)) @ v
        return seen.transpose(1, 0, 2).reshape(query.shape)

    def _dense(self, states: "Vector", name: str) -> "Vector":
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalize_layer(self, states: "Vector", name: str) -> "Vector":
        centred = states - states.mean(-1, keepdims=True)
        scaled = centred / self._np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


_MAX_CACHED: Final = 4_000
_BATCH_SIZE: Final = 64


def _import_numpy() -> Any:
    """Import numpy with one thread; several wait for each other, which takes seconds on a busy machine."""
    if "numpy" in sys.modules:
        return sys.modules["numpy"]
    before = os.environ.get(_THREADS_VARIABLE)
    os.environ[_THREADS_VARIABLE] = before or "1"  # read once, when the library is loaded
    try:
        return importlib.import_module("numpy")
    finally:
        if before is None:
            del os.environ[_THREADS_VARIABLE]


_THREADS_VARIABLE: Final = "OPENBLAS_NUM_THREADS"


class _Tensor(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def _read_safetensors(path: Path, np: Any) -> "dict[str, Vector]":
    """Load the arrays of a safetensors file: the length of a JSON header, the header, then the numbers."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = msgspec.json.decode(file.read(size), type=dict[str, msgspec.Raw])
    numbers = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + size)
    found: dict[str, Vector] = {}
    for name, raw in header.items():
        if name != "__metadata__":
            tensor = msgspec.json.decode(raw, type=_Tensor)
            if tensor.dtype == "F32":
                start, end = tensor.data_offsets
                found[name] = cast("Vector", numbers[start:end].view(np.float32).reshape(tensor.shape))
    return found
