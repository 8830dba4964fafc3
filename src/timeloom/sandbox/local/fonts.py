"""Creates matplotlib's font list once in a sandbox, because building it takes seconds."""

import asyncio
import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

from timeloom.platform.tasks import run_to_completion
from timeloom.ports.sandbox import ExecutionLimits, Program
from timeloom.sandbox.local.execution import execute_program
from timeloom.sandbox.local.worker import LocalWorker, LocalWorkerConfig, start_worker

LIBRARY: Final = "matplotlib"
FILE: Final = "fontlist.json"
MAX_BYTES: Final = 16 * 1024 * 1024

_CODE: Final = """
import glob, os, shutil
import matplotlib, matplotlib.font_manager
made = glob.glob(os.path.join(matplotlib.get_cachedir(), "fontlist*.json"))[0]
shutil.copy(made, os.path.join(OUT_DIR, "{file}"))
print(os.path.basename(made))
"""
_LIMITS: Final = ExecutionLimits(wall_s=120, cpu_s=120)
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_logger = logging.getLogger(__name__)


class _RefusingBroker:
    """A broker that refuses every request."""

    async def call(self, tool_id: str, params: str) -> str:
        return '{"ok": false, "error": null, "ret": null}'

    async def fetch(self, path: str) -> str:
        return await self.call(path, "")


async def make_font_list(config: LocalWorkerConfig) -> None:
    """Write the font list into the folder that all workers see; without matplotlib, write nothing."""
    worker = await start_worker(config, _LIMITS, ())
    try:
        await _build_font_list(config, worker)
    finally:
        await run_to_completion(worker.close())


async def _build_font_list(config: LocalWorkerConfig, worker: LocalWorker) -> None:
    program = Program(code=_CODE.format(file=FILE), execution_id="fonts", limits=_LIMITS)
    result = await execute_program(worker, program, _RefusingBroker(), lambda _stream, _text: None, 0.0)
    name = Path(result.stdout_tail.strip()).name
    if result.exit_code != 0 or not name.startswith("fontlist"):
        _logger.debug("could not create the font list of matplotlib: %s", result.stderr_tail[-200:])
        return
    with contextlib.suppress(OSError):
        await asyncio.to_thread(_copy_font_list, result.out_dir / FILE, config.guest.fonts / name)


def _copy_font_list(source: Path, target: Path) -> None:
    descriptor = os.open(source, _READ)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES:
            content = file.read(MAX_BYTES)
            target.write_bytes(content)
            target.chmod(0o644)
