"""Harness for `timeloom chat`: a scripted model, and processes with or without a terminal."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.pseudo_terminal import PseudoTerminal


class ChatHarness:
    """A folder with a script, and processes that use it with or without a terminal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.data = folder / "data"

    def script(self, *steps: str | dict[str, object]) -> None:
        listed = [{"reply": step} if isinstance(step, str) else step for step in steps]
        (self._folder / "script.yaml").write_text(json.dumps(listed))

    def chat(self, *options: str, columns: int = 80, rows: int = 24, **environ: str) -> PseudoTerminal:
        model = ["--model", f"script:{self._folder / 'script.yaml'}", "--data-dir", str(self.data)]
        return PseudoTerminal("chat", *model, *options, columns=columns, rows=rows, environ=environ)

    def run(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "timeloom", *arguments, "--data-dir", str(self.data)]
        if arguments[0] in ("chat", "approve"):
            command += ["--model", f"script:{self._folder / 'script.yaml'}"]
        return subprocess.run(command, input=typed, capture_output=True, text=True, check=False)
