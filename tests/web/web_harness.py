"""Harness for the web page: a server with a scripted model, a browser, and checks that hold for every test."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, expect, sync_playwright

PATIENCE_MS = 60_000
"""Longest wait for anything; test machines may be busy."""

expect.set_options(timeout=PATIENCE_MS)

Step = str | dict[str, object]


def decided(**decision: object) -> str:
    return f"<channel:ReactDecisionOutV2>{json.dumps(decision)}</channel:ReactDecisionOutV2>"


def call(tool_id: str, notes: str = "", **params: object) -> str:
    return decided(action="call_tool", notes=notes, tool_call={"tool_id": tool_id, "params": params})


def answer(text: str, *offers: str) -> str:
    return decided(action="complete", final_answer=text, suggested_followups=offers)


def thought(text: str) -> str:
    return f"<channel:thinking>{text}</channel:thinking>\n"


def slowly(text: str, chunk: int = 8, delay_ms: int = 40) -> dict[str, object]:
    return {"reply": text, "chunk": chunk, "delay_ms": delay_ms}


def titled(text: str) -> dict[str, object]:
    return {"reply": text, "when": "title", "repeat": True}


def play(match: str, *steps: Step) -> dict[str, object]:
    """Return the model's replies for conversations whose first message matches."""
    return {"match": match, "steps": [{"reply": step} if isinstance(step, str) else step for step in steps]}


@dataclass
class Server:
    """A running server, as described by its first output lines."""

    address: str
    token: str
    page: str
    pid: int


@contextmanager
def serving(folder: Path, *plays: dict[str, object], port: int = 0, **environ: str) -> Generator[Server]:
    (folder / "script.yaml").write_text(json.dumps(plays))
    command = [sys.executable, "-m", "timeloom", "serve", "--data-dir", str(folder / "data"), "--port", str(port)]
    command += ["--model", f"script:{folder / 'script.yaml'}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, env=os.environ | environ, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
        )
    try:
        assert process.stdout
        lines = [process.stdout.readline().strip().partition(mark)[2] for mark in ("serving on ", "token: ", "page: ")]
        assert all(lines), (folder / "log").read_text()
        address, token, page = lines
        yield Server(address, token, page, process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=60)


@contextmanager
def browsing() -> Generator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "the tests of the page need Debian's chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work as root, and small machines have a small /dev/shm.
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


class Visit:
    """A browser page that records errors, dialogs and requests to other origins."""

    def __init__(self, browser: Browser, server: Server, width: int = 1280) -> None:
        self.server = server
        self.context: BrowserContext = browser.new_context(
            viewport={"width": width, "height": 860}, permissions=["clipboard-read", "clipboard-write"]
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.wrong: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", self._asked_by_script)
        self.page.on("console", self._heard)
        self.context.on("request", self._asked)

    def come_in(self) -> Page:
        self.page.goto(self.server.page)
        expect(self.page.get_by_role("textbox", name="Message")).to_be_visible()
        return self.page

    def say(self, text: str) -> None:
        self.page.get_by_role("textbox", name="Message").fill(text)
        self.page.keyboard.press("Enter")

    def leave(self) -> None:
        self.context.close()
        assert self.wrong == [], self.wrong

    def _asked_by_script(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _heard(self, message: ConsoleMessage) -> None:
        # A blocked script inside a document frame is expected.
        if message.location["url"].endswith("/frame.html") and "script" in message.text:
            return
        if re.search(r"Content Security Policy|Refused to|Uncaught", message.text):
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.server.address, "data:", "blob:")):
            self.wrong.append(f"request: {request.url}")
