"""Attaching files on the page: dropped anywhere, cancelled during upload, and refused one by one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from tests.web.web_harness import Server, Visit, answer, play, serving, titled

PLAYS = (play("file", answer("Read it."), titled("Files")),)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(Path(tmp_path_factory.mktemp("attaching")), *PLAYS) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    visit = Visit(browser, server)
    visit.come_in()
    yield visit
    visit.leave()


def named(name: str, data: bytes = b"some text") -> FilePayload:
    return FilePayload(name=name, mimeType="text/plain", buffer=data)


class Wire(Protocol):
    """Commands for the browser itself."""

    def send(self, method: str, params: dict[str, object] | None = None) -> object: ...


def wire(page: Page) -> Wire:
    return cast("Wire", page.context.new_cdp_session(page))


class Hand:
    """Drag a file over the page with the events of a browser."""

    def __init__(self, page: Page, file: Path) -> None:
        self._page = page
        self._browser = wire(page)
        self._data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}

    def does(self, kind: str, place: str) -> None:
        box = self._page.locator(place).first.bounding_box()
        assert box
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        self._browser.send("Input.dispatchDragEvent", {"type": kind, "data": self._data, **at})


def test_files_are_taken_wherever_they_are_dropped(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    waiting = page.get_by_role("list", name="Files to send")
    hint = page.get_by_text("Drop files to attach them")
    file = tmp_path / "fares.txt"
    file.write_text("some text")
    hand = Hand(page, file)
    for n, place in enumerate((".sidebar", ".conversation .bar", ".composer"), 1):
        hand.does("dragEnter", place)
        hand.does("dragOver", place)
        expect(hint).to_be_visible()
        hand.does("drop", place)
        expect(waiting.get_by_role("listitem")).to_have_count(n)
        expect(hint).to_be_hidden()
    assert page.url.startswith(visit.server.address)
    hand.does("dragEnter", ".sidebar")
    expect(hint).to_be_visible()
    hand.does("dragCancel", ".sidebar")
    page.mouse.move(20, 20)
    expect(hint).to_be_hidden()


def test_a_file_that_is_removed_on_its_way_is_not_sent(visit: Visit) -> None:
    page = visit.page
    page.get_by_label("Files", exact=True).set_input_files([named("large.txt", b"x" * 2_000_000), named("small.txt")])
    network = wire(page)
    slow: dict[str, object] = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 100_000}
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", slow)
    visit.say("Here is a file.")
    expect(page.get_by_role("progressbar", name="Sending large.txt")).to_be_visible()
    page.get_by_role("button", name="Remove large.txt").click()
    waiting = page.get_by_role("list", name="Files to send")
    expect(waiting.get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Here is a file.")
    expect(page.get_by_role("progressbar")).to_have_count(0)

    network.send("Network.emulateNetworkConditions", slow | {"uploadThroughput": -1})
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Read it.")).to_be_visible()
    sent = page.get_by_role("list", name="Attachments").get_by_role("listitem")
    expect(sent).to_have_count(1)
    expect(sent).to_contain_text("small.txt")


def test_only_the_file_with_the_bad_name_is_refused_in_plain_words(visit: Visit) -> None:
    page = visit.page
    waiting = page.get_by_role("list", name="Files to send")
    words = {
        "50%2F50.txt": "Rename it: its name can be read as “50/50.txt”, which has “/”",
        "a:b?.txt": "Rename it: its name begins like a drive, with “a:”.",
        "a\\b.txt": "Rename it: its name has “\\”, which stands between folders.",
        "bill\u202etxt.exe": "Rename it: its name has a character that nobody sees (U+202E).",
        "con.txt": "Rename it: its name is that of a device on some systems.",
        "x" * 256: "Rename it: its name has more than 255 bytes.",
    }
    good = ["good.txt", "½ cup of 100% tea.txt", "نامه‌ها.txt"]
    page.get_by_label("Files", exact=True).set_input_files([named(name) for name in (*good, *words)])
    expect(waiting.locator(".refused")).to_have_count(len(words))
    for said in words.values():
        expect(waiting.get_by_role("alert").filter(has_text=said)).to_have_count(1)
    for name in words:
        page.get_by_role("button", name=f"Remove {name}", exact=True).click()

    # One that only the server knows to be wrong: it names the file.
    page.get_by_label("Files", exact=True).set_input_files([named("a%c0%afb.txt")])
    visit.say("Here is a file.")
    expect(waiting.get_by_role("alert")).to_have_text("Rename it: the server does not take this name.")
    expect(waiting.locator(".refused")).to_contain_text("a%c0%afb.txt")
    page.get_by_role("button", name="Remove a%c0%afb.txt").click()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Read it.")).to_be_visible()
    expect(page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_count(len(good))
