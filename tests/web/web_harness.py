"""Harness for the web page: a server with a scripted model, a browser, and checks that hold for every test."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, expect, sync_playwright

PATIENCE_MS = 60_000
"""Longest wait for anything; test machines may be busy."""

expect.set_options(timeout=PATIENCE_MS)

Step = str | dict[str, object]


def title_reply(text: str) -> dict[str, object]:
    return {"reply": text, "when": "title", "repeat": True}


def conversation_script(match: str, *steps: Step) -> dict[str, object]:
    """Return the model's replies for conversations whose first message matches."""
    return {"match": match, "steps": [{"reply": step} if isinstance(step, str) else step for step in steps]}


@dataclass
class PageServer:
    """A running server, as described by its first output lines."""

    address: str
    token: str
    page: str
    pid: int


@contextmanager
def run_server(
    folder: Path,
    *plays: dict[str, object],
    port: int = 0,
    model: str = "",
    keys: Path | None = None,
    program: Sequence[str] = ("-m", "timeloom", "serve"),
    bundles: Sequence[Path] = (),
    **environ: str,
) -> Generator[PageServer]:
    """Serve with a scripted model, or with the named one; with the API keys of a file, or else with a token."""
    (folder / "script.yaml").write_text(json.dumps(plays))
    command = [sys.executable, *program, "--data-dir", str(folder / "data"), "--port", str(port)]
    command += ["--model", model or f"script:{folder / 'script.yaml'}"]
    command += [word for bundle in bundles for word in ("--bundle", str(bundle))]
    if keys:
        command += ["--mode", "tokens", "--tokens-file", str(keys)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, env=os.environ | environ, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
        )
    try:
        assert process.stdout
        marks = ("serving on ",) if keys else ("serving on ", "token: ", "page: ")
        lines = [process.stdout.readline().strip().partition(mark)[2] for mark in marks]
        assert all(lines), (folder / "log").read_text()
        address, token, page = (*lines, "", lines[0])[:3] if keys else lines
        yield PageServer(address, token, page, process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def add_key(keys: Path, user: str, role: str = "user") -> str:
    """Add an API key of the project home/demo to the file and return it."""
    command = [sys.executable, "-m", "timeloom", "keys", "add", "--tokens-file", str(keys), "--role", role]
    command += ["--tenant", "home", "--project", "demo", "--user", user]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]


@contextmanager
def launch_browser() -> Generator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "the tests of the page need Debian's chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work as root, and small machines have a small /dev/shm.
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


class PageVisit:
    """A browser page that records errors, dialogs and requests to other origins."""

    def __init__(self, browser: Browser, server: PageServer, width: int = 1280) -> None:
        self.server = server
        self.context: BrowserContext = browser.new_context(
            viewport={"width": width, "height": 860}, permissions=["clipboard-read", "clipboard-write"]
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.problems: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", self._on_dialog)
        self.page.on("console", self._on_console)
        self.context.on("request", self._on_request)

    def open_page(self) -> Page:
        self.page.goto(self.server.page)
        expect(self.page.get_by_role("textbox", name="Message")).to_be_visible()
        return self.page

    def sign_in(self, key: str) -> Page:
        self.page.goto(self.server.address)
        self.page.get_by_label("Token").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("textbox", name="Message")).to_be_visible()
        return self.page

    def send_message(self, text: str) -> None:
        self.page.get_by_role("textbox", name="Message").fill(text)
        self.page.keyboard.press("Enter")

    def close(self) -> None:
        self.context.close()
        assert self.problems == [], self.problems

    def _on_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_console(self, message: ConsoleMessage) -> None:
        # A blocked script inside a document frame is expected.
        if message.location["url"].endswith("/frame.html") and "script" in message.text:
            return
        if re.search(r"Content Security Policy|Refused to|Uncaught", message.text):
            self.problems.append(f"console: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.server.address, "data:", "blob:")):
            self.problems.append(f"request: {request.url}")
