"""Accessibility of the page: screen readers, the keyboard, dark and light mode, and narrow screens."""

import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from tests.harness.replies import answers, calls, thinking_text
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply

SHOTS = os.environ.get("TIMELOOM_SCREENSHOTS", "")
"""Folder for the pictures of the documentation; without it they are made and left in the test's own folder."""

ANSWER = """The **morning ferry** is cheaper by a third [[S:1]]. Over $n$ trips you save

$$\\Delta = \\sum_{i=1}^{n} (e_i - m_i) = 6.5\\,n$$

| Ferry | Leaves | Fare |
|---|---|---:|
| Morning | 09:00 | €12.50 |
| Evening | 18:30 | €19.00 |

```python
def fare(trips: int) -> float:
    \"\"\"What the trips cost in the morning.\"\"\"
    return 12.5 * trips
```
"""
PAGE = """<!doctype html><style>body{font:16px system-ui;margin:24px;color:#222}h1{font-size:22px}
.bar{height:26px;border-radius:6px;background:#4f46e5;color:#fff;padding:2px 10px;margin:8px 0}</style>
<h1>Fares to the islands</h1><p>Morning</p><div class=bar style="width:45%">€12.50</div>
<p>Evening</p><div class=bar style="width:68%">€19.00</div>"""
FARES = FilePayload(name="fares.csv", mimeType="text/csv", buffer=b"ferry,fare\nmorning,12.5\nevening,19\n")
PROGRAM = "<channel:code>for trips in (1, 10, 100):\n    print(trips, 'trips save', 6.5 * trips)</channel:code>"
STEPS = ["Read the fares", "Draw the comparison", "Answer with a formula"]

PLAYS = (
    conversation_script(
        "ferry",
        thinking_text("Two ferries, one file. I read the fares, draw them, then answer.")
        + calls("react.plan", "I'll read the fares first.", mode="new", steps=STEPS),
        calls(
            "react.write",
            "✓ [1] read\nNow a page with both.",
            path="files/fares.html",
            content=PAGE,
            channel="canvas",
            kind="display",
        ),
        calls("exec_tools.execute_code_python", "✓ [2] drawn", contract=[], prog_name="savings") + PROGRAM,
        answers(ANSWER, "How long does it take?", "Is there a night ferry?"),
        title_reply("Ferries to the islands"),
    ),
    conversation_script(
        "twice",
        *(calls("react.plan", "", mode="new", steps=["One"]), calls("react.read", "", paths=["fi:nothing.md"])) * 2,
        answers("| a |\n|---|\n| 1 |\n\nand\n\n| b |\n|---|\n| 2 |"),
        title_reply("Twice"),
    ),
)
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("access"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PageServer]:
    with run_server(folder, *PLAYS) as running:
        yield running


def picture(page: Page, folder: Path, name: str) -> None:
    place = Path(SHOTS) if SHOTS and name.startswith("page-") else folder
    page.screenshot(path=place / f"{name}.png")


def serious(page: Page) -> list[str]:
    page.evaluate(AXE)
    found = """async () => (await axe.run()).violations
        .filter((one) => ["serious", "critical"].includes(one.impact))
        .map((one) => one.id + ": " + one.nodes[0].html.slice(0, 200))"""
    return page.evaluate(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_wherever_a_person_can_be(
    browser: Browser, server: PageServer, folder: Path, scheme: str
) -> None:
    visit = PageVisit(browser, server, width=1440)
    visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page = visit.open_page()
    assert serious(page) == []
    page.get_by_label("Files", exact=True).set_input_files(FARES)
    visit.send_message("Which ferry is cheaper?")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    expect(page.locator(".answer pre [class^=tk-]").first).to_be_visible()
    page.get_by_role("button", name=re.compile("^fares.html")).click()
    expect(page.frame_locator("iframe").get_by_role("heading")).to_be_visible()
    assert serious(page) == []
    picture(page, folder, "page-canvas" if scheme == "light" else "dark-canvas")
    page.get_by_role("button", name=re.compile("Ran a program")).click()
    page.get_by_role("button", name=re.compile("^Thought")).first.click()
    page.get_by_role("button", name="Sources").click()
    expect(page.get_by_role("complementary", name="Sources")).to_contain_text("fares.csv")
    page.get_by_role("button", name="Source 1").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Source 1")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Inspector").click()
    page.get_by_role("option").nth(1).click()
    assert serious(page) == []
    page.get_by_role("tab", name="Prompt").click()
    expect(page.get_by_role("complementary", name="Inspector")).to_contain_text("ANNOUNCE")
    assert serious(page) == []
    picture(page, folder, "page-inspector" if scheme == "dark" else "light-inspector")
    page.get_by_role("button", name="Run again from this round").click()
    expect(page.get_by_text("The model made the same decisions in every round.")).to_be_visible()
    assert serious(page) == []
    page.locator(".current").get_by_role("button", name=re.compile("^Actions for")).click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_role("alertdialog")).to_be_visible()
    assert serious(page) == []
    visit.close()


def test_no_two_landmarks_have_the_same_name(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    page = visit.open_page()
    visit.send_message("All of it twice.")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    for button in page.locator(".call-head").all():
        button.click()
    page.evaluate(AXE)
    found = page.evaluate("async () => (await axe.run({ runOnly: ['landmark-unique', 'heading-order'] })).violations")
    assert found == []
    visit.close()


def test_a_narrow_screen_has_everything_and_nothing_sticks_out(
    browser: Browser, server: PageServer, folder: Path
) -> None:
    visit = PageVisit(browser, server, width=390)
    page = visit.open_page()
    page.get_by_label("Files", exact=True).set_input_files(FARES)
    visit.send_message("Which ferry is cheaper?")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".message-list").evaluate("(list) => list.scrollWidth <= list.clientWidth")
    assert serious(page) == []
    picture(page, folder, "page-narrow")
    for panel in ("Sources", "Files", "Inspector"):
        page.get_by_role("button", name=panel, exact=True).click()
        expect(page.get_by_role("complementary", name=panel)).to_be_visible()
        page.get_by_role("button", name=f"Close {panel.lower()}").click()
    page.get_by_role("button", name="Conversations").click()
    expect(page.get_by_role("navigation", name="Conversations")).to_be_visible()
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_text("What shall we work on?")).to_be_visible()
    expect(page.get_by_role("navigation", name="Conversations")).to_be_hidden()
    visit.close()


def test_everything_can_be_done_with_the_keyboard(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    page = visit.open_page()
    page.keyboard.type("Which ferry is cheaper?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    inspector = page.get_by_role("button", name="Inspector")
    for _ in range(80):
        if inspector.evaluate("(button) => button === document.activeElement"):
            break
        page.keyboard.press("Shift+Tab")
    expect(inspector).to_be_focused()
    page.keyboard.press("Enter")
    rows = page.get_by_role("listbox", name="Blocks")
    rows.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(rows).to_be_hidden()
    visit.close()
