"""Hostile content is shown as text: nothing of it runs, and no other origin receives a request."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from tests.harness.replies import answers, calls, slow_reply, thinking_text
from tests.web.hostile_harness import (
    IMAGE,
    CanaryServer,
    check_harmless,
    frame_document,
    hostile_message,
    payloads,
    short_payload,
)
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply


def diagrams(canary: str) -> list[str]:
    loose = {"securityLevel": "loose", "htmlLabels": True, "flowchart": {"htmlLabels": True}, "maxTextSize": 9_999_999}
    styled = {"themeCSS": f'@import "{canary}/theme.css"; * {{ background: url({canary}/theme.png) }}'}
    image = "<img src=x onerror=window.hit=1>"
    init = json.dumps({**loose, **styled, "__proto__": {"hit": 1}, "secure": []})
    return [
        'flowchart TD\n A --> B\n click A "javascript:window.hit=1"',
        "flowchart TD\n A --> B\n click A call alert()\n click B href javascript:window.hit=1 _top",
        f'flowchart TD\n A["<img src={canary}/a.png onerror=window.hit=1>"] --> B["<script>window.hit=1</script>"]',
        f'%%{{init: {init}}}%%\nflowchart TD\n A["<img src={canary}/b.png onerror=window.hit=1>"] --> B',
        f'---\nconfig: {init}\n---\nflowchart TD\n A["<svg onload=window.hit=1><a href=javascript:alert()>x"]',
        f"flowchart TD\n A --> B\n style A fill:url({canary}/fill.svg),background:url({canary}/style.png)",
        f"flowchart TD\n A:::c --> B\n classDef c fill:#fff,background-image:url({canary}/class.png)",
        f'flowchart TD\n A@{{ img: "{canary}/shape.png", label: "x", w: 60, h: 60 }} --> B@{{ icon: "fa:user" }}',
        'flowchart TD\n A["`**x** <iframe srcdoc=x></iframe> ![x](' + canary + '/markdown.png)`"]',
        'flowchart TD\n A["$$\\href{javascript:window.hit=1}{x}$$"]',
        f'flowchart TD\n A["</style></svg><script>window.hit=1</script><foreignObject>{image}"]',
        f"sequenceDiagram\n participant A\n link A: x @ javascript:window.hit=1\n A->>A: {image}",
        f'classDiagram\n class A\n link A "{canary}/link"\n click A href "javascript:window.hit=1" "<b>x</b>"',
        f'stateDiagram-v2\n a --> b\n click a "{canary}/state"\n a : <img src={canary}/c.png>',
        'gantt\n section x\n y :z, 2026-01-01, 1d\n click z href "javascript:window.hit=1"\n click z call alert()',
        f"journey\n title </text><script>window.hit=1</script>\n section a\n b: 5: {image}",
        f'pie showData title </text><script>window.hit=1</script>\n "{image}" : 3\n "x" : 1\n accTitle: {image}',
        f'gitGraph\n commit id: "{image}" tag: "</text>{image}"\n branch "javascript:window.hit=1"\n commit',
        f"mindmap\n root(({image}))\n  a[<script>window.hit=1</script>]\n  ::icon(fa {canary}/icon.png)\n   b",
        "constructor\n A --> B",
        "flowchart TD\n" + "\n".join(f" n{n} --> m{n}" for n in range(600)),
        "flowchart TD\n" + "".join(f"subgraph s{n}\n" for n in range(500)),
        "flowchart TD\n A[" + "x" * 1_000_000 + "]",
    ]


@pytest.fixture(scope="module")
def canary() -> Iterator[CanaryServer]:
    canary = CanaryServer()
    yield canary
    canary.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, canary: CanaryServer) -> Iterator[PageServer]:
    text = hostile_message(canary.address)
    line = "<img src=x onerror=window.hit=1><script>window.hit=1</script>"
    plays = (
        conversation_script(
            "hostile",
            thinking_text(text)
            + calls("react.plan", text, mode="new", steps=[line, f"![x]({canary.address}/plan.png)"]),
            calls(f"evil.{line}", text, path=line, pattern=text),
            calls("react.write", "", path="files/evil.md", content=text, channel="canvas", kind="display"),
            answers(text, line),
            title_reply(line),
        ),
        conversation_script(
            "piecemeal",
            slow_reply(
                calls("react.write", text, path="files/evil.md", content=text, channel="canvas"), chunk=7, delay_ms=3
            ),
            slow_reply(thinking_text(text) + answers(text), chunk=7, delay_ms=3),
            title_reply("Piece by piece"),
        ),
        conversation_script(
            "frame",
            calls(
                "react.write",
                path="files/f.html",
                content=frame_document(canary.address),
                channel="canvas",
                kind="display",
            ),
            answers("Done."),
            title_reply("Frame"),
        ),
    )
    drawn = [*diagrams(canary.address), "flowchart TD\n accTitle: The last one\n A --> B"]
    plays += (
        conversation_script(
            "draw", answers("\n\n".join(f"```mermaid\n{text}\n```" for text in drawn)), title_reply("Diagrams")
        ),
    )
    with run_server(Path(tmp_path_factory.mktemp("hostile")), *plays) as running:
        yield running


def test_nothing_that_a_model_a_tool_a_file_or_a_user_brings_runs_or_reaches_out(
    browser: Browser, server: PageServer, canary: CanaryServer
) -> None:
    visit = PageVisit(browser, server, width=1400)
    page = visit.open_page()
    name = "<img src=x onerror=window.hit=1>.txt"
    payload = hostile_message(canary.address).encode()
    page.get_by_label("Files", exact=True).set_input_files(
        [FilePayload(name=name, mimeType="text/plain", buffer=payload.replace(b"\0", b""))]
    )
    visit.send_message("hostile " + hostile_message(canary.address).replace("\0", ""))
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    expect(page.get_by_role("article", name="Answer", exact=True)).to_contain_text(f"after{len(payloads('')) - 1}")
    for button in page.locator(".call-head, .fold").all():
        button.click()
    expect(page.locator(".call-body").first).to_be_visible()
    page.get_by_role("button", name=re.compile("^evil.md")).click()
    expect(page.get_by_role("complementary", name="Files")).to_contain_text("after1")
    for panel in ("Sources", "Inspector"):
        page.get_by_role("button", name=panel, exact=True).click()
        expect(page.get_by_role("complementary", name=panel)).to_be_visible()
    page.get_by_role("listbox", name="Blocks").focus()
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    page.get_by_role("tab", name="Prompt").click()
    expect(page.get_by_role("complementary", name="Inspector")).to_contain_text("ANNOUNCE")
    page.get_by_role("searchbox", name="Search conversations").fill("hostile")
    expect(page.get_by_role("list", name="Search results")).to_contain_text("<img src=x")
    check_harmless(visit, canary)
    visit.close()


def test_nothing_runs_or_reaches_out_while_it_is_half_written(
    browser: Browser, server: PageServer, canary: CanaryServer
) -> None:
    visit = PageVisit(browser, server, width=1400)
    page = visit.open_page()
    visit.send_message("piecemeal")
    expect(page.get_by_role("region", name="File in progress")).to_contain_text("after0")
    check_harmless(visit, canary)
    expect(page.get_by_role("article", name="Answer in progress")).to_contain_text("after0")
    ended = page.get_by_role("button", name="Fork here")
    for _ in range(600):
        check_harmless(visit, canary)
        if ended.is_visible():
            break
        page.wait_for_timeout(100)
    expect(ended).to_be_visible()
    check_harmless(visit, canary)
    visit.close()


@pytest.fixture
def asking(tmp_path: Path, canary: CanaryServer) -> Iterator[PageServer]:
    text = hostile_message(canary.address)

    def written(name: str, content: str) -> str:
        return calls("react.write", IMAGE, path=f"files/{name}", content=content, channel="canvas", kind="display")

    steps = (
        written(f"{IMAGE}.md", text),
        written(f"{IMAGE}.md", f"{IMAGE}\n{text}\n{short_payload(canary.address)}"),
        written(f"x.{IMAGE}", text),
        answers(text),
        title_reply(IMAGE),
    )
    (tmp_path / f"{IMAGE}.yaml").write_text(
        json.dumps([conversation_script("versions", *steps[:3], answers(short_payload(canary.address)))])
    )
    models = f"script:{IMAGE}.yaml"
    plays = conversation_script("versions", *steps)
    with run_server(
        tmp_path, plays, TIMELOOM_POLICY_ASK_BEFORE="react.write", TIMELOOM_SERVER_MODELS=models
    ) as running:
        yield running


def test_nothing_that_a_person_is_asked_says_or_compares_runs_or_reaches_out(
    browser: Browser, asking: PageServer, canary: CanaryServer
) -> None:
    visit = PageVisit(browser, asking, width=1400)
    page = visit.open_page()
    binary = FilePayload(name=f"{IMAGE}.bin", mimeType="application/octet-stream", buffer=b"\x00\x01")
    page.get_by_label("Files", exact=True).set_input_files([binary])
    visit.send_message("versions")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_role("button", name=f"Remove {IMAGE}.bin").click()
    page.get_by_role("button", name="Send").click()
    allowed = page.locator(".call:not(.call-waiting) .call-head")
    for n in range(3):
        question = page.get_by_role("group", name="May the agent call")
        question.get_by_label("Note to the agent").fill(short_payload(canary.address))
        check_harmless(visit, canary)
        question.get_by_role("button", name="Allow").click()
        expect(allowed).to_have_count(n + 1)
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    page.get_by_role("button", name="Bad answer").click()
    page.get_by_label("What was wrong?").fill(short_payload(canary.address))
    page.get_by_role("button", name="Send", exact=True).first.click()
    expect(page.get_by_text(f"“{short_payload(canary.address)}”")).to_be_visible()
    page.locator(".current").get_by_role("button", name=re.compile("^Actions for")).click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_role("textbox", name="Title").fill(short_payload(canary.address))
    page.get_by_role("button", name="Rename").click()
    expect(page).to_have_title(f"{short_payload(canary.address)} · timeloom")
    for name, modes in ((f"{IMAGE}.md", ("Preview", "Source", "Changes")), (f"x.{IMAGE}", ("Source",))):
        page.get_by_role("button", name=name).last.click()
        for mode in modes:
            page.get_by_role("complementary", name="Files").get_by_role("button", name=mode, exact=True).click()
            expect(page.get_by_role("complementary", name="Files")).to_contain_text("after0")
            check_harmless(visit, canary)
    page.get_by_role("button", name="Inspector", exact=True).click()
    page.get_by_role("tab", name="Prompt").click()
    again = page.get_by_role("region", name="Run again")
    expect(again.get_by_label("Run again with")).to_have_value(f"script:{IMAGE}.yaml")
    again.get_by_role("button", name="Run again from this round").click()
    expect(again.get_by_role("status")).to_have_text("The results differ.")
    expect(again.get_by_label("Changes")).to_contain_text("short.png")
    check_harmless(visit, canary)
    visit.close()


def live(svg: str) -> list[str]:
    """What of a picture would run or load, if it were not one."""
    found: list[str] = []
    for element in ET.fromstring(svg).iter():
        if re.search(r"\b(script|iframe|img|image)$", element.tag):
            found.append(element.tag)
        found += [f"{name}={value}" for name, value in element.items() if re.match("on|.*javascript:", name + value)]
    return found


def test_a_diagram_runs_nothing_and_asks_for_nothing(
    browser: Browser, server: PageServer, canary: CanaryServer
) -> None:
    visit = PageVisit(browser, server)
    page = visit.open_page()
    page.evaluate("window.said = []; addEventListener('message', ({ data }) => { window.said.push(data.svg); })")
    visit.send_message("draw")
    # They are drawn one after the other.
    expect(page.get_by_role("img", name="The last one")).to_be_visible()
    pictures = [svg for svg in page.evaluate("window.said") if svg]
    assert len(pictures) > len(diagrams("")) / 2, "most of them can be drawn"
    assert [found for svg in pictures for found in live(svg)] == []
    shown = page.locator(".message-list img").evaluate_all("(all) => all.map((one) => one.src.split(':')[0])")
    assert set(shown) == {"blob"}
    live_elements = ("svg:not(button svg)", "iframe", "script", "a[href]")
    assert page.locator(", ".join(f".message-list {one}" for one in live_elements)).count() == 0
    assert {frame.evaluate("window.hit") for frame in page.frames} == {None}
    assert canary.requests == []
    assert len(visit.context.pages) == 1
    # What a text wanted from elsewhere is on the console as refusals, and no more than that.
    assert [one for one in visit.problems if not one.startswith(("console:", "request:"))] == []
    visit.context.close()


def test_a_document_in_the_canvas_reaches_nothing(browser: Browser, server: PageServer, canary: CanaryServer) -> None:
    visit = PageVisit(browser, server, width=1400)
    page = visit.open_page()
    page.evaluate("addEventListener('message', (event) => { document.body.dataset.said = event.data; })")
    visit.send_message("Show me a frame.")
    page.get_by_role("button", name=re.compile("^f.html")).click()
    expect(page.frame_locator("iframe").locator("#a")).to_be_attached()
    assert page.locator("body").get_attribute("data-said") is None, "no script runs before somebody says so"
    page.get_by_role("button", name="Run scripts").click()
    expect(page.locator("body")).to_have_attribute("data-said", re.compile("tried everything"))
    said = page.locator("body").get_attribute("data-said") or ""
    assert "no parent" in said
    assert "no storage" in said
    assert "rtc" not in said
    expect(page.get_by_text("Done.")).to_be_visible()
    # The last that it tries is to go elsewhere, and what is there instead says that it was not let.
    for _ in range(600):
        if any(frame.url.startswith("chrome-error:") for frame in page.frames):
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail(f"the frame went somewhere: {[frame.url for frame in page.frames]}")
    assert page.url.startswith(visit.server.address)
    assert page.evaluate("window.hit") is None
    assert canary.requests == []
    assert len(visit.context.pages) == 1
    # What the document tried is on the console as refusals, and no more than that.
    tried = json.dumps([one for one in visit.problems if not one.startswith(("console:", "request:"))])
    assert tried == "[]"
    visit.context.close()
