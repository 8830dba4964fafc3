"""`import timeloom` stays light: it loads itself and nothing else."""

import json
import subprocess
import sys

import pytest

HEAVY = {"apsw", "asyncio", "click", "email", "http", "importlib.metadata", "logging", "sqlite3", "ssl", "subprocess"}
"""Modules that a program that only reads or folds a timeline must not load."""


def loaded_by(statement: str) -> set[str]:
    """Names of the modules that a fresh interpreter loads for the statement."""
    code = (
        f"import json, sys; before = set(sys.modules); {statement}; print(json.dumps(list(set(sys.modules) - before)))"
    )
    outcome = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(outcome.stdout))


def test_importing_timeloom_loads_nothing_else() -> None:
    assert loaded_by("import timeloom") == {"timeloom"}


def test_importing_the_server_package_loads_no_web_server() -> None:
    assert loaded_by("import timeloom.server") - loaded_by("import importlib") == {"timeloom", "timeloom.server"}


@pytest.mark.parametrize("module", ["timeloom.core.paths", "timeloom.core.blocks", "timeloom.wire"])
def test_core_and_wire_load_nothing_heavy(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert module in loaded
    assert not {name for name in loaded if name in HEAVY or name.split(".")[0] in HEAVY}
