"""Refuses calls of real models while a test run forbids them; the pytest plug-in does.

A model is real if it calls a service over the network. A service on this machine counts as one of the test's own, such
as a fake one, except at the ports where Ollama, vLLM and LM Studio listen.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from timeloom.core.codes import CodedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from timeloom.ports.model import Model

LOCAL_MODEL_PORTS: Final = frozenset({1234, 8000, 11434})
"""The ports of LM Studio, vLLM and Ollama. A fake service of a test listens elsewhere."""

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_hints: Final[list[str | None]] = []
"""The innermost rule is the last: a sentence that says how to allow real models, or None where they are allowed."""


@contextmanager
def forbid_real_models(hint: str) -> Generator[None]:
    """Refuse calls of real models in this process; the error ends with the hint, which names the way to allow them."""
    with _rule(hint):
        yield


@contextmanager
def allow_real_models() -> Generator[None]:
    """Allow calls of real models in this process, also inside `forbid_real_models`."""
    with _rule(None):
        yield


def check_service_allowed(title: str, url: str) -> None:
    """Raise `real_model_forbidden` if calls are forbidden and the URL is not one of a test's own services."""
    hint = _hint()
    if not hint:
        return
    address = urlsplit(url)
    if address.hostname not in LOOPBACK or address.port in LOCAL_MODEL_PORTS:
        raise CodedError("real_model_forbidden", f"the test calls {title} at {address.netloc}, a real model; {hint}")


def check_model_allowed(prefix: str, model: "Model") -> None:
    """Raise `real_model_forbidden` if calls are forbidden; for models of added providers that may call a service."""
    hint = _hint()
    if not hint:
        return
    from timeloom.providers.script import ScriptedModel  # noqa: PLC0415 - the YAML parser takes 20 ms

    if not isinstance(model, ScriptedModel):
        raise CodedError(
            "real_model_forbidden",
            f"the test opens a model of the provider {prefix!r}, which may call a service; {hint}, "
            "or declare the provider with remote=False",
        )


def _hint() -> str | None:
    return _hints[-1] if _hints else None


@contextmanager
def _rule(hint: str | None) -> Generator[None]:
    _hints.append(hint)
    try:
        yield
    finally:
        _hints.pop()
