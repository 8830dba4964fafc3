"""Builds the web page into the package (`make page`), or checks with `--check` that it is up to date.

The built page is part of the repository, so that users of timeloom need no node. It records the checksum of its
sources, which can be compared without node. If npm is installed, `--check` also builds the page again.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "web"
BUILT = ROOT / "src" / "timeloom" / "web"
STAMP = "sources.sha256"
ASIDE = {"node_modules"}


def main() -> int:
    """Build or check; return the exit code."""
    options = argparse.ArgumentParser(description="Builds the page.")
    options.add_argument("--check", action="store_true", help="only check whether the built page is up to date")
    return check() if options.parse_args().check else build()


def build() -> int:
    """Build the page and record the checksum of its sources."""
    subprocess.run([sys.executable, "-m", "scripts.clients"], cwd=ROOT, check=True)
    install()
    run("npm", "run", "build")
    (BUILT / STAMP).write_text(f"{checksum(WEB)}\n")
    return 0


def check() -> int:
    """Check that the built page matches its sources; return the exit code."""
    if (BUILT / STAMP).read_text().strip() != checksum(WEB):
        print("the page in src/timeloom/web is out of date; run `make page`", file=sys.stderr)
        return 1
    if not shutil.which("npm"):
        print("npm is not installed, so only the checksum was checked")
        return 0
    try:
        install()
    except subprocess.CalledProcessError:
        print("npm could not install the packages, so only the checksum was checked")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        run("npm", "exec", "--", "vite", "build", "--outDir", folder, "--logLevel", "warn")
        again, there = contents(Path(folder)), contents(BUILT)
        there.pop(STAMP)
        if again != there:
            print("the page in src/timeloom/web differs from a new build; run `make page`", file=sys.stderr)
            return 1
    return 0


def checksum(folder: Path) -> str:
    """Return the checksum of all sources by name and content."""
    digest = hashlib.sha256()
    for name, data in sorted(contents(folder).items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name, without installed packages and intermediate files."""
    found: dict[str, bytes] = {}
    for file in folder.rglob("*"):
        name = file.relative_to(folder)
        if file.is_file() and not ASIDE.intersection(name.parts):
            found[name.as_posix()] = file.read_bytes()
    return found


def install() -> None:
    """Install the locked packages that this platform needs."""
    run("npm", "install", "--no-save", "--silent")


def run(*command: str) -> None:
    """Run a command in the folder of the sources; raise if it fails."""
    subprocess.run(command, cwd=WEB, check=True)


if __name__ == "__main__":
    sys.exit(main())
