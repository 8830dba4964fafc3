"""A small installed package: a module and the entry points of its distribution, in a folder on `sys.path`."""

import sys
from pathlib import Path

import pytest


def install_package(folder: Path, name: str, code: str, entry_points: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the module and its distribution, and make both importable until the test ends."""
    (folder / f"{name}.py").write_text(code)
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
