"""The import paths that other projects rely on stay importable, wherever the code behind them lives."""

import importlib

import pytest

PROMISED = (
    ("timeloom.core.paths", "parse"),
    ("timeloom.core.paths", "PathError"),
    ("timeloom.core.sources", "normalize_url"),
    ("timeloom.core.stream.channels", "ChannelParser"),
    ("timeloom.core.stream.citations", "CitationRewriter"),
    ("timeloom.core.patch", "apply_patch"),
    ("timeloom.core.patch", "PatchError"),
    ("timeloom.testing", "ScriptedModel"),
    ("timeloom.testing", "store_contract"),
    ("timeloom.testing", "STORE_CONTRACT"),
    ("timeloom.testing", "MODEL_CONTRACT"),
    ("timeloom.testing", "call"),
    ("timeloom.testing", "says"),
)


@pytest.mark.parametrize(("module", "name"), PROMISED)
def test_a_promised_name_is_importable(module: str, name: str) -> None:
    loaded = importlib.import_module(module)
    assert hasattr(loaded, name) or importlib.import_module(f"{module}.{name}")
