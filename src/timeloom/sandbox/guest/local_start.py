"""The first program of an isolated interpreter: sets up what `site` would, in a fraction of its time, then bootstraps.

It is compiled and run by `python -I -S` with nothing of timeloom in reach, and needs Python 3.9 or newer. What it is
given is in one file, which the same interpreter wrote when the sandbox was opened (`interpreter.py`).
"""

import _sitebuiltins
import atexit
import builtins
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    Setup = tuple[str, str, list[str], CodeType]
    Main = Callable[[list[str]], int]


def main(setup_file: str, arguments: "list[str]") -> None:
    """Ends the process with the exit code of its program."""
    # Not by pathlib: importing it takes longer than all of this.
    with open(setup_file, "rb") as file:  # noqa: PTH123
        # Not by `load`, which asks the file for every few bytes.
        setup: Setup = marshal.loads(file.read())
    sys.prefix, sys.exec_prefix, sys.path[:], code = setup
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D")
    builtins.help = _sitebuiltins._Helper()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as `site` does
    names: dict[str, Main] = {"__name__": "bootstrap"}  # type: ignore[dict-item]
    exec(code, names)  # noqa: S102 - the bootstrap, compiled
    _end(names["main"](arguments))


def _end(exit_code: int) -> None:
    """As an interpreter ends, but without taking apart what it has loaded: that takes longer than most programs."""
    threading = sys.modules.get("threading")
    try:
        if threading is not None:
            threading._shutdown()  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(exit_code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
