"""Sets up an isolated interpreter as `site` would, in a fraction of the time, then runs the bootstrap.

`python -I -S` runs this file, compiled, without any access to timeloom; it needs Python 3.9 or newer. All its input is
in one file, which the same interpreter wrote when the sandbox was opened (`local/interpreter.py`).
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
    """Run the bootstrap and end the process with the exit code of its program."""
    # Not pathlib: importing it takes longer than this whole function.
    with open(setup_file, "rb") as file:  # noqa: PTH123
        # Not `load`, which reads the file a few bytes at a time.
        setup: Setup = marshal.loads(file.read())
    sys.prefix, sys.exec_prefix, sys.path[:], code = setup
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D")
    builtins.help = _sitebuiltins._Helper()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as `site` does
    names: dict[str, Main] = {"__name__": "bootstrap"}  # type: ignore[dict-item]
    exec(code, names)  # noqa: S102 - the bootstrap, compiled
    _exit_process(names["main"](arguments))


def _exit_process(exit_code: int) -> None:
    """Exit like an interpreter, but without freeing loaded modules, which takes longer than most programs run."""
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
