"""Creates matplotlib's font list once in a sandbox, because building it takes seconds."""

import asyncio
import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

from timeloom.platform.tasks import uncancelled
from timeloom.ports.sandbox import Limits, Program
from timeloom.sandbox.local.execution import execute
from timeloom.sandbox.local.worker import Cell, Place, start_cell

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
_LIMITS: Final = Limits(wall_s=120, cpu_s=120)
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_logger = logging.getLogger(__name__)


class _Nobody:
    """A broker that refuses every request."""

    async def call(self, tool_id: str, params: str) -> str:
        return '{"ok": false, "error": null, "ret": null}'

    async def fetch(self, path: str) -> str:
        return await self.call(path, "")


async def make_font_list(place: Place) -> None:
    """Write the font list into the folder that all workers see; without matplotlib, write nothing."""
    cell = await start_cell(place, _LIMITS, ())
    try:
        await _made(place, cell)
    finally:
        await uncancelled(cell.close())


async def _made(place: Place, cell: Cell) -> None:
    program = Program(code=_CODE.format(file=FILE), execution_id="fonts", limits=_LIMITS)
    ran = await execute(cell, program, _Nobody(), lambda _stream, _text: None, 0.0)
    name = Path(ran.stdout_tail.strip()).name
    if ran.exit_code != 0 or not name.startswith("fontlist"):
        _logger.debug("could not create the font list of matplotlib: %s", ran.stderr_tail[-200:])
        return
    with contextlib.suppress(OSError):
        await asyncio.to_thread(_keep, ran.out_dir / FILE, place.host.fonts / name)


def _keep(made: Path, kept: Path) -> None:
    descriptor = os.open(made, _READ)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES:
            content = file.read(MAX_BYTES)
            kept.write_bytes(content)
            kept.chmod(0o644)
