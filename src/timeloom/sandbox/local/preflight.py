"""Checks that this machine can isolate programs, and starts one worker as a test."""

import asyncio
import platform
import resource
import shutil
from pathlib import Path
from typing import Final, cast

from timeloom.platform.tasks import uncancelled
from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import Limits, SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import RunFolders
from timeloom.sandbox.local.bwrap_args import Host, shared_arguments
from timeloom.sandbox.local.errors import INSTALL_BUBBLEWRAP
from timeloom.sandbox.local.etc import make_etc
from timeloom.sandbox.local.host_resources import Berths
from timeloom.sandbox.local.interpreter import find_interpreter
from timeloom.sandbox.local.orphans import kill_orphans
from timeloom.sandbox.local.settings import LocalSettings
from timeloom.sandbox.local.spawner import Spawner
from timeloom.sandbox.local.worker import Place, start_cell
from timeloom.sandbox.processes.cgroup import hierarchies, remove_groups_of_the_dead
from timeloom.sandbox.seccomp import Machine, seccomp_filter

_FILES: Final = 1024
_MACHINES: Final[tuple[Machine, ...]] = ("x86_64", "aarch64")


async def open_place(settings: LocalSettings, ids: Ids) -> Place:
    """Return the configuration for workers, after one worker was started as a test."""
    bubblewrap = _bubblewrap()
    _allow_files()
    if platform.system() != "Linux" or platform.machine() not in _MACHINES:
        raise SandboxUnavailableError("the local sandbox needs Linux on x86_64 or aarch64; use the docker sandbox")
    opening = asyncio.ensure_future(asyncio.to_thread(RunFolders.open, settings.root(), ids))
    try:
        return await _open_in(await asyncio.shield(opening), bubblewrap, settings, ids)
    except BaseException:
        # Also if this task was cancelled while the folder was being created.
        (await uncancelled(opening)).close()
        raise


async def _open_in(folders: RunFolders, bubblewrap: Path, settings: LocalSettings, ids: Ids) -> Place:
    groups = hierarchies() if settings.cgroups else ()
    await uncancelled(asyncio.to_thread(kill_orphans))
    await uncancelled(asyncio.to_thread(remove_groups_of_the_dead, groups))
    host = await uncancelled(asyncio.to_thread(_host, folders.path, settings))
    owner = settings.owner()
    # The run folders first, because every start looks up paths in them.
    spawner = Spawner(owner, (folders.path, *host.interpreter.parts))
    place = Place(
        bubblewrap=bubblewrap,
        host=host,
        arguments=tuple(shared_arguments(host, spawner.seen)),
        filter=seccomp_filter(cast(Machine, platform.machine())),
        owner=owner,
        spawner=spawner,
        berths=Berths(folders, owner, groups, ids),
        start_s=settings.start_s,
    )
    try:
        await place.spawner.start()
        await uncancelled((await start_cell(place, Limits(), ())).close())
        await place.berths.prepare()
    except BaseException:
        place.spawner.close()
        await uncancelled(place.berths.close())
        raise
    return place


def _bubblewrap() -> Path:
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailableError(INSTALL_BUBBLEWRAP)
    return Path(found).absolute()


def _allow_files() -> None:
    """Raise the limit on open files of this process, if it is too low for several programs at once."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= now < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES if most < 0 else min(_FILES, most), most))


def _host(folder: Path, settings: LocalSettings) -> Host:
    fonts = folder / "fonts"
    fonts.mkdir()
    fonts.chmod(0o755)
    etc = make_etc(folder / "etc", settings.uid, settings.gid)
    return Host(
        interpreter=find_interpreter(settings.python, etc),
        etc=etc,
        fonts=fonts,
        uid=settings.uid,
        gid=settings.gid,
        tmp_bytes=settings.tmp_bytes,
    )
