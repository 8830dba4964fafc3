"""Attaching files on the page: dropped anywhere, cancelled during upload, and refused one by one."""

from pathlib import Path
from typing import Protocol, cast

from playwright.sync_api import FilePayload, Page, expect

from tests.harness.replies import answers
from tests.web.web_harness import PageVisit, conversation_script, title_reply

PLAYS = (conversation_script("file", answers("Read it."), title_reply("Files")),)


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


def test_files_are_taken_wherever_they_are_dropped(visit: PageVisit, tmp_path: Path) -> None:
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


def test_a_file_that_is_removed_on_its_way_is_not_sent(visit: PageVisit) -> None:
    page = visit.page
    page.get_by_label("Files", exact=True).set_input_files([named("large.txt", b"x" * 2_000_000), named("small.txt")])
    network = wire(page)
    slow: dict[str, object] = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 100_000}
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", slow)
    visit.send_message("Here is a file.")
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


def test_only_the_file_with_the_bad_name_is_refused_in_plain_words(visit: PageVisit) -> None:
    page = visit.page
    waiting = page.get_by_role("list", name="Files to send")
    words = {
        "50%2F50.txt": "Rename this file: its name decodes to “50/50.txt”, which contains the path separator “/”",
        "a:b?.txt": "Rename this file: its name starts with a drive letter (“a:”).",
        "a\\b.txt": "Rename this file: its name contains the path separator “\\”.",
        "bill\u202etxt.exe": "Rename this file: its name contains an invisible character (U+202E).",
        "con.txt": "Rename this file: its name is reserved for a device on some systems.",
        "x" * 256: "Rename this file: its name is longer than 255 bytes.",
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
    visit.send_message("Here is a file.")
    expect(waiting.get_by_role("alert")).to_have_text("Rename this file: the server does not accept its name.")
    expect(waiting.locator(".refused")).to_contain_text("a%c0%afb.txt")
    page.get_by_role("button", name="Remove a%c0%afb.txt").click()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Read it.")).to_be_visible()
    expect(page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_count(len(good))


def test_all_files_that_are_no_text_are_refused_before_the_upload(visit: PageVisit) -> None:
    page = visit.page
    uploads: list[str] = []
    page.on("request", lambda request: uploads.append(request.url) if request.method == "POST" else None)
    page.get_by_label("Files", exact=True).set_input_files(
        [
            FilePayload(name="photo.png", mimeType="image/png", buffer=b"\x89PNG\r\n"),
            FilePayload(name="letter.docx", mimeType="", buffer=b"PK"),
            FilePayload(name="fares.csv", mimeType="text/csv", buffer=b"a,b\n"),
            FilePayload(name="old.txt", mimeType="text/plain", buffer="Fähre".encode("latin-1")),
            FilePayload(name="wide.txt", mimeType="text/plain", buffer="Fähre".encode("utf-16")),
        ]
    )
    waiting = page.get_by_role("list", name="Files to send")
    refused = waiting.locator("li.refused")
    expect(refused).to_contain_text(["photo.png", "letter.docx", "old.txt"])
    expect(refused.locator(".why")).to_contain_text(
        ["type is not supported", "type is not supported", "not UTF-8 text"]
    )
    assert uploads == []
