"""Builds the page into the package: `make page`; `--check` says whether what is there is what the sources give.

The built page is part of the repository, so that whoever runs timeloom needs no node. It records the checksum of the
sources it was made from, which needs no node to compare; where npm is there, `--check` also builds it again.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "web"
BUILT = ROOT / "src" / "timeloom" / "web"
STAMP = "sources.sha256"
ASIDE = {"node_modules", "openapi.json"}


def main() -> int:
    """Builds or checks; the exit code of the command."""
    options = argparse.ArgumentParser(description="Builds the page.")
    options.add_argument("--check", action="store_true", help="build nothing, say whether the built page is up to date")
    return check() if options.parse_args().check else build()


def build() -> int:
    """Builds the page and records what it was made from."""
    write_document()
    install()
    run("npm", "run", "types")
    run("npm", "run", "build")
    (BUILT / STAMP).write_text(f"{checksum(WEB)}\n")
    return 0


def check() -> int:
    """Says whether the built page is what its sources give."""
    if (BUILT / STAMP).read_text().strip() != checksum(WEB):
        print("the page in src/timeloom/web was built from other sources: make page", file=sys.stderr)
        return 1
    if not shutil.which("npm"):
        print("npm is not installed, so the page was not built again")
        return 0
    try:
        install()
    except subprocess.CalledProcessError:
        print("the packages of the page cannot be had here, so it was not built again")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        run("npm", "exec", "--", "vite", "build", "--outDir", folder, "--logLevel", "warn")
        again, there = contents(Path(folder)), contents(BUILT)
        there.pop(STAMP)
        if again != there:
            print("the page in src/timeloom/web is not what its sources give: make page", file=sys.stderr)
            return 1
    return 0


def checksum(folder: Path) -> str:
    """Of all sources, by their names and contents."""
    digest = hashlib.sha256()
    for name, data in sorted(contents(folder).items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their names, but for what was installed or is made on the way."""
    found: dict[str, bytes] = {}
    for file in folder.rglob("*"):
        name = file.relative_to(folder)
        if file.is_file() and not ASIDE.intersection(name.parts):
            found[name.as_posix()] = file.read_bytes()
    return found


def write_document() -> None:
    """The OpenAPI document, from which the types of the page are made."""
    from timeloom.server.endpoints import OPERATIONS  # noqa: PLC0415
    from timeloom.server.openapi import document  # noqa: PLC0415 - what only checks does not need the package

    described = json.loads(document(OPERATIONS))
    (WEB / "openapi.json").write_text(json.dumps(described, indent=1) + "\n")


def install() -> None:
    """What the lock names, as far as this machine has use for it."""
    run("npm", "install", "--no-save", "--silent")


def run(*command: str) -> None:
    """Runs a command among the sources; raises where it fails."""
    subprocess.run(command, cwd=WEB, check=True)


if __name__ == "__main__":
    sys.exit(main())
