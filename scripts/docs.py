"""Generates the parts of the documentation that come from the code: modules, block types, codes, settings.

Without an argument it writes them. With `--check` it only prints the differences, and exits with 1 if there are any.
"""

import ast
import difflib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from timeloom.config.catalogue import SETTING_SPECS, SettingSpec
from timeloom.config.parse_value import describe_expected
from timeloom.core.blocks import BLOCK_CLASSES, Unknown
from timeloom.core.codes import CODES

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
START = "<!-- written by `make docs` from here -->\n"
END = "<!-- to here -->\n"


def main(arguments: list[str]) -> int:
    """Return exit code 0, or 1 if `--check` found a page out of date."""
    stale = False
    for name, lines in PARTS.items():
        page = ROOT / name
        before = page.read_text(encoding="utf-8")
        after = fill_page(before, lines())
        stale |= before != after
        if arguments != ["--check"]:
            page.write_text(after, encoding="utf-8")
        else:
            changes = difflib.unified_diff(
                before.splitlines(True), after.splitlines(True), name, f"{name} as it should be"
            )
            print("".join(changes), end="")
    return int(stale and arguments == ["--check"])


def module_lines() -> list[str]:
    """Return a line for every module: its path and its first docstring line, packages before their modules."""
    files = sorted(SOURCE.rglob("*.py"), key=lambda file: module_path(file).rstrip("/").split("/"))
    return [f"{'  ' * depth(file)}- `{module_path(file)}`: {subject(file)}\n" for file in files]


def block_lines() -> list[str]:
    """Return a table row for every block class except the one for unknown types."""
    known = [cls for cls in BLOCK_CLASSES if cls is not Unknown]
    rows = [f"| `{cls.type_name}` | `{cls.__name__}` | {fields(cls)} | {sentence(cls)} |\n" for cls in known]
    return ["| type | class | fields | meaning |\n", "|---|---|---|---|\n", *rows]


def code_lines() -> list[str]:
    """Return a table row for every code."""
    rows = [f"| `{code}` | {sentence} |\n" for code, sentence in CODES.items()]
    return ["| code | meaning |\n", "|---|---|\n", *rows]


def setting_lines() -> list[str]:
    """Return a table row for every setting."""
    rows = [
        f"| `{row.key}` | {sentence_of(row)} | {describe_expected(row)} | {default_of(row)} | {sources_of(row)} |\n"
        for row in SETTING_SPECS
    ]
    return ["| key | meaning | expected | default | also set by |\n", "|---|---|---|---|---|\n", *rows]


def fill_page(page: str, lines: list[str]) -> str:
    """Return the page with these lines between its two marks."""
    head, start, rest = page.partition(START)
    _, end, tail = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"a page lacks the mark {START.strip()} or {END.strip()}")
    return f"{head}{START}\n{''.join(lines)}\n{END}{tail}"


def module_path(file: Path) -> str:
    """Return the page's name for a module: its file below src/, or its folder if it is a package."""
    if file.name == "__init__.py":
        return f"{file.parent.relative_to(SOURCE).as_posix()}/"
    return file.relative_to(SOURCE).as_posix()


def depth(file: Path) -> int:
    """Return the number of folders between the package and the module."""
    return module_path(file).rstrip("/").count("/")


def subject(file: Path) -> str:
    """Return the first line of the module's docstring, or a complaint if it has none."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    return docstring.splitlines()[0] if docstring else "(has no docstring)"


def fields(cls: type[msgspec.Struct]) -> str:
    """Return the names of a block's specific fields, without those that all blocks have."""
    return ", ".join(f"`{name}`" for name in cls.__struct_fields__ if name not in ("author", "erased"))


def sentence(cls: type) -> str:
    """Return the first line of the class's docstring, escaped for a table."""
    return (inspect.getdoc(cls) or "").partition("\n")[0].replace("|", "\\|")


def sentence_of(row: SettingSpec) -> str:
    """Return the description of a setting, escaped for a table, with its alternative keys in the file."""
    others = "".join(f" The key `{key}` means the same." for key in row.help.keys)
    return (row.help.doc + others).replace("|", "\\|")


def default_of(row: SettingSpec) -> str:
    """Return the default of a setting as a user would write it."""
    default: object = row.default
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        default = ", ".join(cast("tuple[str, ...]", default))
    return f"`{default}`" if default or default == 0 else ""


def sources_of(row: SettingSpec) -> str:
    """Return the option, bundle properties and variables of a setting in order of precedence."""
    option = [f"`{row.help.option}`"] if row.help.option else []
    properties = [f"bundle `{name}`" for name in row.help.properties]
    return ", ".join([*option, *properties, *(f"`{name}`" for name in row.variables)])


PARTS: dict[str, Callable[[], list[str]]] = {
    "docs/reference/blocks.md": block_lines,
    "docs/reference/codes.md": code_lines,
    "docs/reference/modules.md": module_lines,
    "docs/reference/settings.md": setting_lines,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
