"""The core is pure: it imports only what cannot reach the world, and it calls nothing that does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "src" / "timeloom" / "core"

ALLOWED = {
    # third parties, each with its reason in docs/adr/0002-dependencies.md
    "idna",
    "msgspec",
    # the core itself
    "timeloom.core",
    # of the standard library: values, text and arithmetic
    "__future__",
    "abc",
    "array",
    "base64",
    "binascii",
    "bisect",
    "codecs",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",  # for reading and writing recorded times; asking for the present one is banned by ruff
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "html",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "string",
    "struct",
    "textwrap",
    "types",
    "typing",
    "unicodedata",
    "urllib.parse",
}

REACHES_THE_WORLD = {
    "open",
    "print",
    "input",
    "exec",
    "eval",
    "compile",
    "__import__",
    "breakpoint",
    "globals",
    "id",
    "hash",
}
"""Built-ins that need no import. `id` differs between runs, and so does `hash` of text."""

FILES = sorted(CORE.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Full names of the modules that the code imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.ImportFrom(level=level):
                yield "." * level
            case _:
                pass


def allowed(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in ALLOWED)


def called(tree: ast.AST) -> Iterator[str]:
    """Names that the code calls as plain functions."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                yield name
            case _:
                pass


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(CORE).as_posix())
def test_a_core_module_imports_only_what_is_pure(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert [module for module in imported(tree) if not allowed(module)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(CORE).as_posix())
def test_a_core_module_calls_no_builtin_that_reaches_the_world(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert [name for name in called(tree) if name in REACHES_THE_WORLD] == []


@pytest.mark.parametrize(
    "line", ["import os", "from os.path import join", "import timeloom.stores", "from . import ids"]
)
def test_the_check_itself_sees_an_impure_import(line: str) -> None:
    assert [module for module in imported(ast.parse(line)) if not allowed(module)]
