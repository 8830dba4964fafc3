"""Harness for `timeloom chat`: a scripted model, and processes with or without a terminal."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.pseudo_terminal import PseudoTerminal


def reply(**decision: object) -> str:
    return f"<channel:ReactDecisionOutV2>{json.dumps(decision)}</channel:ReactDecisionOutV2>"


def call(tool_id: str, notes: str = "", **params: object) -> str:
    return reply(action="call_tool", notes=notes, tool_call={"tool_id": tool_id, "params": params})


def answer(text: str, *offers: str) -> str:
    return reply(action="complete", final_answer=text, suggested_followups=offers)


def thinking_text(text: str) -> str:
    return f"<channel:thinking>{text}</channel:thinking>\n"


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


def slow_reply(text: str, chunk: int = 8, delay_ms: int = 50) -> dict[str, object]:
    return {"reply": text, "chunk": chunk, "delay_ms": delay_ms}
