"""Checks that this machine can isolate programs, and starts one worker as a test."""

import asyncio
import platform
import resource
import shutil
from pathlib import Path
from typing import Final, cast

from timeloom.platform.tasks import run_to_completion
from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import ExecutionLimits, SandboxUnavailableError
from timeloom.sandbox.folders.run_folder import RunFolders
from timeloom.sandbox.local.bwrap_args import GuestView, shared_arguments
from timeloom.sandbox.local.errors import INSTALL_BUBBLEWRAP
from timeloom.sandbox.local.etc import make_etc
from timeloom.sandbox.local.host_resources import HostResourcePool
from timeloom.sandbox.local.interpreter import find_interpreter
from timeloom.sandbox.local.orphans import kill_orphans
from timeloom.sandbox.local.settings import LocalSettings
from timeloom.sandbox.local.spawner import Spawner
from timeloom.sandbox.local.worker import LocalWorkerConfig, start_worker
from timeloom.sandbox.processes.cgroup import find_hierarchies, remove_dead_cgroups
from timeloom.sandbox.seccomp import Machine, seccomp_filter

_FILES: Final = 1024
_MACHINES: Final[tuple[Machine, ...]] = ("x86_64", "aarch64")


async def prepare_workers(settings: LocalSettings, ids: Ids) -> LocalWorkerConfig:
    """Return the configuration for workers, after one worker was started as a test."""
    bubblewrap = _find_bubblewrap()
    _raise_file_limit()
    if platform.system() != "Linux" or platform.machine() not in _MACHINES:
        raise SandboxUnavailableError("the local sandbox needs Linux on x86_64 or aarch64; use the docker sandbox")
    folders_task = asyncio.ensure_future(asyncio.to_thread(RunFolders.open, settings.root(), ids))
    try:
        return await _prepare_in(await asyncio.shield(folders_task), bubblewrap, settings, ids)
    except BaseException:
        # Also if this task was cancelled while the folder was being created.
        (await run_to_completion(folders_task)).close()
        raise


async def _prepare_in(folders: RunFolders, bubblewrap: Path, settings: LocalSettings, ids: Ids) -> LocalWorkerConfig:
    cgroup_hierarchies = find_hierarchies() if settings.cgroups else ()
    await run_to_completion(asyncio.to_thread(kill_orphans))
    await run_to_completion(asyncio.to_thread(remove_dead_cgroups, cgroup_hierarchies))
    host = await run_to_completion(asyncio.to_thread(_build_guest_view, folders.path, settings))
    owner = settings.owner()
    # The run folders first, because every start looks up paths in them.
    spawner = Spawner(owner, (folders.path, *host.interpreter.parts))
    config = LocalWorkerConfig(
        bubblewrap=bubblewrap,
        guest=host,
        arguments=tuple(shared_arguments(host, spawner.map_path)),
        filter=seccomp_filter(cast(Machine, platform.machine())),
        owner=owner,
        spawner=spawner,
        resources=HostResourcePool(folders, owner, cgroup_hierarchies, ids),
        start_s=settings.start_s,
    )
    try:
        await config.spawner.start()
        await run_to_completion((await start_worker(config, ExecutionLimits(), ())).close())
        await config.resources.prepare()
    except BaseException:
        config.spawner.close()
        await run_to_completion(config.resources.close())
        raise
    return config


def _find_bubblewrap() -> Path:
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailableError(INSTALL_BUBBLEWRAP)
    return Path(found).absolute()


def _raise_file_limit() -> None:
    """Raise the limit on open files of this process, if it is too low for several programs at once."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= now < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES if most < 0 else min(_FILES, most), most))


def _build_guest_view(folder: Path, settings: LocalSettings) -> GuestView:
    fonts = folder / "fonts"
    fonts.mkdir()
    fonts.chmod(0o755)
    etc = make_etc(folder / "etc", settings.uid, settings.gid)
    return GuestView(
        interpreter=find_interpreter(settings.python, etc),
        etc=etc,
        fonts=fonts,
        uid=settings.uid,
        gid=settings.gid,
        tmp_bytes=settings.tmp_bytes,
    )
