"""Builds the image that programs run in from local files, without a registry."""

import asyncio
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, cast

import msgspec

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.docker.engine import ContainerEngine
from timeloom.sandbox.docker.guest import LAUNCH, RELAY
from timeloom.sandbox.docker.profile import DEFAULT_IMAGE
from timeloom.sandbox.guest import BOOTSTRAP
from timeloom.sandbox.protocol import VERSION
from timeloom.sandbox.seccomp import seccomp_filter

DOCKERFILE: Final = Path(__file__).with_name("Dockerfile")
SCRATCH: Final = "scratch"
PROTOCOL_LABEL: Final = "timeloom.protocol"
LIBRARIES: Final = ("numpy", "pandas", "matplotlib")
"""Packages copied from this machine's Python with their dependencies, if they are installed."""

PROGRAMS: Final = (
    *("sh", "cat", "cp", "cut", "date", "echo", "env", "false", "find", "grep", "gzip", "head", "id", "ls", "mkdir"),
    *("mv", "rm", "sed", "sleep", "sort", "tail", "tar", "touch", "tr", "true", "uname", "uniq", "wc"),
)
"""Commands copied from this machine, for programs that start other programs."""

_MACHINES: Final = ("x86_64", "aarch64")
_FOLDERS: Final = {
    "sys": 0o700,
    "tmp": 0o1777,
    "workspace/work": 0o755,
    "workspace/out": 0o755,
    "workspace/sock": 0o755,
    "workspace/relay": 0o711,
}
"""Folders with their modes, which some engines also apply to the mounts on them."""

_EXCLUDED: Final = re.compile(
    r"(^|/)(site-packages|dist-packages|test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|config-[^/]*)(/|$)"
    r"|\.opt-[12]\.pyc$|(^|/)(_tkinter|_test|_xxtest|_ctypes_test|nis)[^/]*\.so$|\.a$"
)
_LIBRARY: Final = re.compile(rb"(?:=>)?\s+(/\S+) \(0x")
_ETC: Final = {
    "etc/passwd": "root:x:0:0::/:\nsandbox:x:1001:1001::/workspace/work:\n",
    "etc/group": "root:x:0:\nsandbox:x:1001:\n",
}
_PROBE: Final = """
import importlib.metadata as metadata, json, os, re, sys, sysconfig
names, files, done = sys.argv[1:], [], set()
while names:
    name = re.sub(r"[-_.]+", "-", names.pop()).lower()
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    if name not in done:
        done.add(name)
        files += [[str(file), str(distribution.locate_file(file))] for file in distribution.files or ()]
        names += [re.match(r"[\\w.-]+", each)[0] for each in distribution.requires or () if "extra ==" not in each]
print(json.dumps({
    "python": os.path.realpath(sys.executable), "stdlib": sysconfig.get_path("stdlib"), "files": files,
    "version": "%d.%d" % sys.version_info[:2],
}))
"""


class _PythonInstallation(msgspec.Struct, frozen=True):
    """A Python installation of this machine: its executable, its standard library and the files of its packages."""

    python: str
    stdlib: str
    version: str
    files: list[tuple[str, str]]


async def build_image(
    engine: ContainerEngine,
    tag: str = DEFAULT_IMAGE,
    *,
    base: str = SCRATCH,
    python: Path = Path(sys.executable),
    libraries: Sequence[str] = LIBRARIES,
) -> str:
    """Build the image and return the builder's output.

    With the base `scratch`, the image contains that Python of this machine with these packages. Any other base must
    have a Python at `/usr/local/bin/python3`, like the official images.
    """
    with tempfile.TemporaryDirectory(prefix="timeloom-image-") as folder:
        context = Path(folder) / "context.tar"
        await asyncio.to_thread(write_context, context, None if base != SCRATCH else python, libraries)
        return await engine.build(context, tag, {"BASE": base, "PROTOCOL": str(VERSION)})


def write_context(context: Path, python: Path | None, libraries: Sequence[str] = LIBRARIES) -> None:
    """Write the build context as a tar file; include a whole Python if one is given."""
    with tarfile.open(context, "w") as tar:
        tar.add(DOCKERFILE, "Dockerfile", filter=_strip_owner)
        for name, mode in _FOLDERS.items():
            _add_folder(tar, name, mode)
        for source in (LAUNCH, RELAY, BOOTSTRAP):
            tar.add(source, f"root/opt/timeloom/{source.name}", filter=_strip_owner)
        _add_text(tar, "opt/timeloom/filter.bpf", seccomp_filter(_check_machine()))
        if python is not None:
            for name, text in _ETC.items():
                _add_text(tar, name, text.encode())
            _add_python(tar, _inspect_python(python, libraries))
        end = tar.offset
    # Only the two empty blocks that end an archive, no further padding: an engine that reads no further closes the
    # connection with unread bytes, which resets it before its answer is read.
    os.truncate(context, end + 2 * tarfile.BLOCKSIZE)


def _check_machine() -> Literal["x86_64", "aarch64"]:
    if platform.machine() not in _MACHINES:
        raise SandboxUnavailableError(f"images are built for {' and '.join(_MACHINES)}, not {platform.machine()}")
    return cast(Literal["x86_64", "aarch64"], platform.machine())


def _inspect_python(python: Path, libraries: Sequence[str]) -> _PythonInstallation:
    probe = subprocess.run([python, "-I", "-c", _PROBE, *libraries], capture_output=True, check=True)
    return msgspec.json.decode(probe.stdout, type=_PythonInstallation)


def _add_python(tar: tarfile.TarFile, installation: _PythonInstallation) -> None:
    library = f"usr/local/lib/python{installation.version}"
    tar.add(installation.python, f"root/usr/local/bin/python{installation.version}", filter=_strip_owner)
    for name in ("python3", "python"):
        _add_link(tar, f"usr/local/bin/{name}", f"python{installation.version}")
    binaries = [Path(installation.python)]
    for name in PROGRAMS:
        if (path := shutil.which(name)) is not None:
            binaries.append(Path(path).resolve())
            tar.add(binaries[-1], f"root/usr/bin/{name}", filter=_strip_owner)
    _add_link(tar, "bin", "usr/bin")
    for name, path in (
        *_library_files(Path(installation.stdlib), library),
        *_package_files(installation.files, f"{library}/site-packages"),
    ):
        tar.add(path, f"root/{name}", recursive=False, filter=_strip_owner)
        if ".so" in path.name:
            binaries.append(path)
    for target, path in _shared_libraries(binaries).items():
        tar.add(path, f"root{target}", filter=_strip_owner)


def _library_files(top: Path, to: str) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder that a program may need, including `.pyc` files: the image is read-only."""
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            relative = path.relative_to(top).as_posix()
            if not _EXCLUDED.search(relative):
                yield f"{to}/{relative}", path


def _package_files(files: Iterable[tuple[str, str]], to: str) -> Iterator[tuple[str, Path]]:
    for name, source in files:
        path = Path(source)
        # Programs do not need files elsewhere, such as commands.
        if not name.startswith("..") and "/tests/" not in name and path.is_file():
            yield f"{to}/{name}", path


def _shared_libraries(binaries: Sequence[Path]) -> dict[str, Path]:
    """Return the shared libraries that the binaries need, by the path where the loader looks for them."""
    output = subprocess.run(["ldd", *binaries], capture_output=True, check=False).stdout
    found = {path.decode() for path in _LIBRARY.findall(output)}
    # The C library loads it when a thread ends.
    found.update(str(each) for name in list(found) for each in Path(name).parent.glob("libgcc_s.so.1"))
    package_folders = {binary.parent for binary in binaries}
    targets: dict[str, Path] = {}
    for name in sorted(found):
        path = Path(name)
        if path.parent in package_folders or ".libs" in path.parent.name:
            # It is part of a package, which finds it there.
            continue
        targets[name if name.startswith(("/lib", "/usr/lib")) else f"/usr/lib/{path.name}"] = path.resolve()
    return targets


def _strip_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove the owner and make the entry readable for every user."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(f"root/{name}")
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(f"root/{name}")
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)


def _add_text(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(f"root/{name}")
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))
