"""The generated parts of the clients are what the OpenAPI document gives."""

import subprocess
import sys

import pytest

from scripts.client_model import Api
from scripts.clients import generate, read_api
from tests.harness.repository import ROOT


@pytest.fixture(scope="module")
def api() -> Api:
    return read_api()


@pytest.mark.parametrize("name", generate())
def test_a_generated_file_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == generate()[name], "make clients"


def test_the_script_says_that_the_files_are_up_to_date() -> None:
    command = [sys.executable, "-m", "scripts.clients", "--check"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_every_operation_of_the_api_is_a_method_and_a_route(api: Api) -> None:
    python, typescript = generate()["src/timeloom/client/operations.py"], generate()["web/src/api/schema.ts"]
    for one in api.operations:
        assert f"def {one.name}(" in python
        assert f"  {one.name}: [" in typescript


def test_optional_fields_are_optional_in_typescript() -> None:
    typescript = generate()["web/src/api/schema.ts"]
    step = typescript.partition("export interface ChatStep {\n")[2].partition("}")[0]
    assert 'step: "model" | "result" | "round" | "tool";' in step
    assert "  seen?: number;" in step
    assert "  turn_id: string;" in step
