"""Configures the fonts of a sandbox, and names the packages of fonts that a text needs and the machine lacks."""

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from timeloom.tools.documents.guest.job import Job

FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts")
MAX_FONTS = 500
"""Most font files that are examined for a script; a machine with all of Noto has thousands."""

_FAMILIES = {
    "sans-serif": ("Noto Sans", "DejaVu Sans", "Liberation Sans"),
    "serif": ("Noto Serif", "DejaVu Serif", "Liberation Serif"),
    "monospace": ("Noto Sans Mono", "DejaVu Sans Mono", "Liberation Mono"),
}
_SCRIPTS = (
    ("Chinese, Japanese or Korean", re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"), "fonts-noto-cjk"),
    ("emoji", re.compile("[\U0001f300-\U0001faff]"), "fonts-noto-color-emoji"),
    ("Latin, Greek or Cyrillic", re.compile("[A-Za-z\u0370-\u052f]"), "fonts-dejavu-core"),
    ("Hebrew or Arabic", re.compile("[\u05d0-\u06ff]"), "fonts-dejavu-core"),
    ("Indic or Thai", re.compile("[\u0900-\u0e7f]"), "fonts-noto-core"),
)


def configure_fonts() -> None:
    """Point fontconfig to the fonts of the machine; its own configuration is not visible in a sandbox."""
    folder = Path(tempfile.mkdtemp(prefix="fonts-"))
    aliases = "".join(_alias(name, families) for name, families in _FAMILIES.items())
    folders = "".join(f"<dir>{each}</dir>" for each in FOLDERS)
    text = f"<fontconfig>{folders}<cachedir>{folder}/cache</cachedir>{aliases}</fontconfig>"
    (folder / "fonts.conf").write_text(f'<?xml version="1.0"?>{text}', encoding="utf-8")
    os.environ["FONTCONFIG_FILE"] = str(folder / "fonts.conf")


def _alias(name: str, families: Iterable[str]) -> str:
    preferred = "".join(f"<family>{each}</family>" for each in families)
    return f"<alias><family>{name}</family><prefer>{preferred}</prefer></alias>"


def warn_about_missing_fonts(job: Job, folders: Sequence[str] = FOLDERS) -> None:
    """Add a warning for each script of the document that no font in these folders has."""
    texts = " ".join((job.title, job.content, *(source.title for source in job.sources)))
    wanted = {name: (found[0], package) for name, script, package in _SCRIPTS if (found := script.search(texts))}
    for covered in _list_character_sets(folders) if wanted else ():
        wanted = {name: each for name, each in wanted.items() if ord(each[0]) not in covered}
        if not wanted:
            return
    for name, (_, package) in wanted.items():
        job.warn(f"no font for {name} is installed; install {package}")


def _list_character_sets(folders: Sequence[str]) -> Iterator[Collection[int]]:
    fonts: Any = import_module("fontTools.ttLib")
    files = [file for folder in folders for file in sorted(Path(folder).rglob("*.[to]t[fc]"))]
    for file in files[:MAX_FONTS]:
        try:
            with fonts.TTFont(file, fontNumber=0, lazy=True) as font:
                yield font.getBestCmap() or {}
        except (OSError, ValueError, KeyError, fonts.TTLibError):
            # A damaged font is as good as none.
            continue
