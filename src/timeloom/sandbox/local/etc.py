"""Creates the guest's `/etc`: its user and the few host files that libraries read."""

import shutil
from pathlib import Path
from typing import Final

_COPIED: Final = ("ld.so.cache", "ld.so.conf", "localtime")
_LINKS: Final = "alternatives"
_HOST: Final = Path("/etc")


def make_etc(folder: Path, uid: int, gid: int) -> Path:
    """Create and fill the folder; the host's `/etc` stays hidden, because it contains accounts and settings."""
    folder.mkdir()
    _write(folder / "passwd", f"program:x:{uid}:{gid}::/workspace/work:/usr/sbin/nologin\n")
    _write(folder / "group", f"program:x:{gid}:\n")
    _write(folder / "hosts", "127.0.0.1 localhost\n")
    for name in _COPIED:
        if (_HOST / name).is_file():
            shutil.copyfile(_HOST / name, folder / name)
            (folder / name).chmod(0o644)
    if (_HOST / _LINKS).is_dir():
        _copy_links(_HOST / _LINKS, folder / _LINKS)
    folder.chmod(0o755)
    return folder


def _copy_links(source: Path, target: Path) -> None:
    """Copy the links in `/etc/alternatives`, through which Debian provides some libraries."""
    target.mkdir(mode=0o755)
    for link in source.iterdir():
        if link.is_symlink():
            (target / link.name).symlink_to(link.readlink())


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="ascii")
    file.chmod(0o644)
