"""Builds the documentation as a website with Zensical and checks every internal link of the result.

The pages are staged in build/site/pages with the folders of the repository, so that their relative links stay valid.
The website is build/site/site.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "build" / "site"
SITE = SOURCE / "site"
PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "bench/README.md",
    "web/README.md",
    "examples/README.md",
    "examples/docs/README.md",
    "examples/research/README.md",
    "examples/table/README.md",
    "images/py-code-exec/README.md",
    "images/py-code-exec/build",
    "src/timeloom/sandbox/docker/Dockerfile",
)

CONFIG = """
[project]
site_name = "timeloom"
site_description = "A timeline-first ReAct agent runtime"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = [
    {{ "timeloom" = "README.md" }},
    {{ "Tutorial" = [{tutorial}] }},
    {{ "How-to" = [{howto}] }},
    {{ "Reference" = [{reference}] }},
    {{ "Explanation" = [{explanation}] }},
    {{ "Decisions" = [{adr}] }},
    {{ "Project" = [
        "docs/README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md",
    ] }},
]
"""


def main() -> int:
    """Return 0, or 1 if the site could not be built or a link is broken."""
    stage()
    command = [sys.executable, "-m", "zensical", "build", "--clean"]
    built = subprocess.run(command, cwd=SOURCE, env={**os.environ, "NO_COLOR": "1"}, check=False)
    if built.returncode:
        return built.returncode
    broken = sorted(broken_links())
    for line in broken:
        print(line, file=sys.stderr)
    count = sum(1 for _ in SITE.rglob("*.html"))
    print(f"{count} pages in {SITE.relative_to(ROOT)}, {len(broken)} broken links")
    return int(bool(broken))


def stage() -> None:
    """Copy the pages and write the configuration."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    pages = SOURCE / "pages"
    shutil.copytree(ROOT / "docs", pages / "docs")
    for name in PAGES:
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, pages / name)
    config = CONFIG.format(
        tutorial=listed("tutorial"),
        howto=listed("how-to"),
        reference=listed("reference"),
        explanation=listed("explanation"),
        adr=listed("adr"),
    )
    tomllib.loads(config)
    (SOURCE / "zensical.toml").write_text(config, encoding="utf-8")


def listed(folder: str) -> str:
    """Return the pages of a folder as items of a TOML list."""
    return ", ".join(f'"docs/{folder}/{page.name}"' for page in sorted((ROOT / "docs" / folder).glob("*.md")))


def broken_links() -> Iterator[str]:
    """Yield a line for every link of the site to a page or an anchor that does not exist."""
    pages = {file: Page.read(file) for file in SITE.rglob("*.html")}
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or file.name == "404.html":
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            where = file.relative_to(SITE)
            if not target.exists():
                yield f"{where}: {link} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {link} has no such anchor"


class Page(HTMLParser):
    """The links and anchors of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    @classmethod
    def read(cls, file: Path) -> "Page":
        """Parse the file."""
        page = cls()
        page.feed(file.read_text(encoding="utf-8"))
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the link and the id of a tag."""
        values = dict(attrs)
        if anchor := values.get("id") or (values.get("name") if tag == "a" else None):
            self.anchors.add(anchor)
        if tag in ("a", "img") and (link := values.get("href") or values.get("src")):
            self.links.append(link)


if __name__ == "__main__":
    sys.exit(main())
