"""The documentation covers the code: every named thing is described, examples run and links work."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from timeloom.cli import main
from timeloom.cli.main import COMMANDS
from timeloom.config.catalogue import SPEC_BY_KEY
from timeloom.core.blocks import BLOCK_TYPES
from timeloom.core.codes import CODES
from timeloom.tools.react.toolset import react_tools

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/README.md")])


class Registry(NamedTuple):
    """Names of one kind, and the page that must describe each of them."""

    kind: str
    names: Callable[[], Iterable[str]]
    page: str


def commands(group: click.Group = main, prefix: str = "timeloom") -> Iterator[str]:
    """Every command as it is typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield f"{prefix} {name}"
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")


REGISTRIES = [
    Registry("block type", lambda: BLOCK_TYPES, "docs/reference/blocks.md"),
    Registry("code", lambda: CODES, "docs/reference/codes.md"),
    Registry("command", commands, "docs/reference/cli.md"),
    Registry("setting", lambda: SPEC_BY_KEY, "docs/reference/settings.md"),
    Registry("react tool", lambda: [tool.spec.tool_id for tool in react_tools()], "docs/reference/react-tools.md"),
]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_the_words_of_its_own_help(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command
    assert command.get_short_help_str(200) == COMMANDS[name]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_name_is_described(registry: Registry) -> None:
    missing = set(registry.names()) - entries(ROOT / registry.page)
    assert not missing, f"{registry.page} has no heading or table row for: {', '.join(sorted(missing))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_python_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From top to bottom as one program in an empty folder; what cannot run is not fenced as `python`."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for token in tokens(page):
        if token.type == "fence" and token.info.split(" ")[0] == "python" and token.map:
            # Blank lines in front make a traceback show the line of the page.
            exec(compile("\n" * (token.map[0] + 1) + token.content, str(page), "exec"), names)
    capsys.readouterr()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_relative_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = [target.partition("#")[0] for target in links(page) if "://" not in target and not target.startswith("#")]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in links(index)}
    pages = {page for page in PAGES if index.parent in page.parents}
    assert sorted(page.name for page in pages - linked - {index}) == []


def entries(page: Path) -> set[str]:
    """Return the names that a page describes: words in backticks in its headings and first table cells."""
    found: set[str] = set()
    opener, first_cell = "", True
    for token in tokens(page):
        if token.type == "tr_open":
            first_cell = True
        elif token.type == "td_close":
            first_cell = False
        elif token.type in {"heading_open", "td_open", "th_open", "paragraph_open"}:
            opener = token.type
        elif token.type == "inline" and (opener == "heading_open" or (opener == "td_open" and first_cell)):
            found.update(child.content for child in token.children or [] if child.type == "code_inline")
    return found


def links(page: Path) -> Iterator[str]:
    """Where the links and pictures of a page point."""
    for token in tokens(page):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if target:
                yield str(target)


def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
