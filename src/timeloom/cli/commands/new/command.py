"""`timeloom new`: writes a bundle with a tool, instructions, settings and a test."""

import re
from pathlib import Path
from string import Template
from typing import Final

import click

from timeloom.cli.sanitize import sanitize

FILES: Final = ("bundle.toml", "instructions.md", "tools.py", "test_bundle.py", "README.md")
"""The files of a new bundle; each has a template of that name."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_TEMPLATES: Final = Path(__file__).parent / "template"


@click.command()
@click.argument("name")
def new(name: str) -> None:
    """Write a small bundle with a test to a new folder.

    NAME is the name of the bundle and of its folder in the current folder. The bundle has one tool, instructions, typed
    settings, and a test that needs no model.

    \b
    Examples:
      timeloom new shop
      timeloom chat --bundle ./shop --model anthropic:ID
    """
    if not _NAME.fullmatch(name):
        raise click.BadParameter("a name has letters, digits, - and _, and begins with a letter", param_hint="NAME")
    folder = Path(name)
    values = {"name": name, "family": name.replace("-", "_"), "title": re.sub("[-_]+", " ", name).strip().capitalize()}
    try:
        folder.mkdir()
        for file in FILES:
            text = Template((_TEMPLATES / f"{file}.txt").read_text(encoding="utf-8")).substitute(values)
            (folder / file).write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise click.BadParameter(f"{name} exists already; choose another name", param_hint="NAME") from error
    except OSError as error:
        raise click.ClickException(sanitize(f"{name} cannot be written: {error.strerror}")) from error
    click.echo(f"wrote {name}/ with {', '.join(FILES)}")
    click.echo(f"test it: python -m pytest {name}")
    click.echo(f"talk to it: timeloom chat --bundle ./{name}")
