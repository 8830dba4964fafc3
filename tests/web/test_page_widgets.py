"""Channels of the agent on the page: a widget gets live text and stored text, and reaches nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, expect

from tests.harness.replies import answers, slow_reply
from tests.harness.repository import ROOT
from tests.web.hostile_harness import CanaryServer, frame_document
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply

BARS = (ROOT / "docs" / "how-to" / "add-a-widget.md").read_text().partition("```html\n")[2].partition("```")[0]
"""The widget that the documentation shows."""

NESTING = """<div id=box></div><script>
const report = "top.postMessage('ran as ' + typeof RTCPeerConnection, '*')";
addEventListener("message", ({ data }) => {
  if (data.type !== "timeloom.state") return;
  box.innerHTML = `<img src="data:," onerror="${report}"><iframe srcdoc="<script>${report}</scr` + `ipt>"></iframe>`;
  const frame = document.createElement("iframe");
  frame.src = "javascript:" + report;
  box.append(frame);
  const script = document.createElement("script");
  script.text = report;
  box.append(script);
  // Its load event comes after the document of the other frames has been parsed.
  const last = document.createElement("iframe");
  last.srcdoc = "<p>last</p>";
  last.onload = () => top.postMessage("nested everything", "*");
  box.append(last);
});
</script>"""
"""A widget that adds scripts and documents, as one does that shows the model's text as HTML."""

FARES = {"Frisia": 74, "Islander": 89, "By bus": 31}
LONG = {f"Ferry {n}": n + 1 for n in range(60)}
CHANNELS = [
    {"name": "fares", "mime": "application/json", "purpose": "prices", "widget": "bars"},
    {"name": "trap", "mime": "text/plain", "purpose": "tries all", "widget": "hostile"},
    {"name": "nest", "mime": "text/plain", "purpose": "adds documents", "widget": "nesting"},
    {"name": "log", "mime": "text/plain", "purpose": "what happened"},
    {"name": "gone", "mime": "application/json", "purpose": "a widget that is not there", "widget": "unknown"},
]


def written(name: str, text: str) -> str:
    return f"<channel:{name}>\n{text}\n</channel:{name}>\n"


@pytest.fixture(scope="module")
def canary() -> Iterator[CanaryServer]:
    canary = CanaryServer()
    yield canary
    canary.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, canary: CanaryServer) -> Iterator[PageServer]:
    evil = "<img src=x onerror=window.hit=1><script>window.hit=1</script>"
    plays = (
        conversation_script(
            "compare", written("fares", json.dumps(FARES)) + answers("Compared."), title_reply("Fares")
        ),
        conversation_script(
            "slowly",
            slow_reply(written("fares", json.dumps(LONG)) + answers("Compared."), chunk=8, delay_ms=60),
            title_reply("Slowly"),
        ),
        conversation_script("trap", written("trap", "go") + answers("Trapped."), title_reply("Trap")),
        conversation_script("nest", written("nest", "go") + answers("Nested."), title_reply("Nest")),
        conversation_script(
            "text", written("log", evil) + written("gone", '{"a":[1]}') + answers("Logged."), title_reply("Text")
        ),
    )
    shown = json.dumps({"bars": BARS, "hostile": frame_document(canary.address), "nesting": NESTING})
    program = ("-m", "tests.web.product_server")
    folder = Path(tmp_path_factory.mktemp("widgets"))
    with run_server(
        folder, *plays, program=program, PYTHONPATH=str(ROOT), CHANNELS=json.dumps(CHANNELS), WIDGETS=shown
    ) as running:
        yield running


def widget(visit: PageVisit) -> FrameLocator:
    return visit.page.frame_locator('iframe[title="The bars"]')


def test_a_widget_shows_the_stored_text_and_is_restored(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("compare the fares")
    expect(page.get_by_text("Compared.")).to_be_visible()
    expect(widget(visit).locator(".row")).to_have_count(len(FARES))
    frame = page.locator('iframe[title="The bars"]')
    # The widget reports its height, and the page applies it.
    expect(frame).not_to_have_attribute("height", "160")
    page.reload()
    expect(widget(visit).locator(".row")).to_have_text([f"{label}{price}" for label, price in FARES.items()])


def test_a_widget_gets_the_text_while_the_model_writes(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("slowly, please")
    rows = widget(visit).locator(".row")
    expect(rows.first).to_be_visible()
    # The answer comes last, so these rows are live text.
    assert page.get_by_text("Compared.").count() == 0
    assert rows.count() < len(LONG)
    expect(page.get_by_text("Compared.")).to_be_visible()
    expect(rows).to_have_count(len(LONG))


def test_a_widget_reaches_nothing(browser: Browser, server: PageServer, canary: CanaryServer) -> None:
    visit = PageVisit(browser, server)
    page = visit.open_page()
    page.evaluate(
        """addEventListener('message', ({ data }) => {
            if (typeof data === 'string') document.body.dataset.said = data;
        })"""
    )
    visit.send_message("trap")
    expect(page.locator("body")).to_have_attribute("data-said", re.compile("tried everything"))
    said = page.locator("body").get_attribute("data-said") or ""
    assert "no parent" in said
    assert "no storage" in said
    assert "rtc" not in said
    expect(page.get_by_text("Trapped.")).to_be_visible()
    for _ in range(600):
        if any(frame.url.startswith("chrome-error:") for frame in page.frames):
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail(f"the frame went somewhere: {[frame.url for frame in page.frames]}")
    assert page.url.startswith(visit.server.address)
    assert page.evaluate("window.hit") is None
    assert canary.requests == []
    assert [one for one in visit.problems if not one.startswith(("console:", "request:"))] == []
    visit.context.close()


def test_what_a_widget_adds_to_itself_runs_no_script(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    page = visit.open_page()
    page.evaluate(
        """addEventListener('message', ({ data }) => {
            if (typeof data === 'string') document.body.dataset.said = `${document.body.dataset.said ?? ''};${data}`;
        })"""
    )
    visit.send_message("nest")
    expect(page.locator("body")).to_have_attribute("data-said", re.compile("nested everything"))
    expect(page.get_by_text("Nested.")).to_be_visible()
    assert "ran as" not in (page.locator("body").get_attribute("data-said") or "")
    visit.context.close()


def test_a_channel_without_a_widget_is_text_with_a_label(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("text")
    expect(page.get_by_text("Logged.")).to_be_visible()
    log = page.get_by_role("figure", name="Channel log")
    expect(log).to_contain_text("<img src=x onerror=window.hit=1>")
    expect(page.get_by_role("figure", name="Channel gone")).to_contain_text('"a"')
    assert page.evaluate("window.hit") is None
    assert page.locator("iframe").count() == 0
