"""Diagrams are drawn once their text is complete, in the colours of the page; what cannot be drawn stays text."""

from playwright.sync_api import Browser, Locator, expect

from tests.harness.replies import answers, slow_reply
from tests.web.web_harness import PageServer, PageVisit, conversation_script, title_reply

KINDS = {
    "flowchart": "flowchart LR\n  A[Ask] --> B{Tool?}\n  B -- yes --> C[Call] --> A\n  B -- no --> D[Answer]",
    "sequenceDiagram": "sequenceDiagram\n  User->>Agent: Question\n  Agent-->>User: Answer",
    "classDiagram": "classDiagram\n  Block <|-- Answer\n  Block : +int seq",
    "stateDiagram": "stateDiagram-v2\n  [*] --> idle\n  idle --> running : message\n  running --> idle",
    "erDiagram": "erDiagram\n  CONVERSATION ||--o{ TURN : has",
    "gantt": "gantt\n  dateFormat YYYY-MM-DD\n  section A\n  First :a, 2026-01-01, 30d\n  Second :after a, 20d",
    "timeline": "timeline\n  2025 : begun\n  2026 : done",
    "journey": "journey\n  section Morning\n    Ferry: 5: Ann",
    "quadrantChart": "quadrantChart\n  x-axis Low --> High\n  y-axis Low --> High\n  A: [0.3, 0.6]",
    "xychart": "xychart-beta\n  x-axis [jan, feb]\n  y-axis Fares 0 --> 20\n  bar [12, 19]",
    "pie): Pets": 'pie showData title Pets\n  "Dogs" : 3\n  "Cats" : 1',
    "gitGraph": "gitGraph\n  commit\n  branch next\n  commit\n  checkout main\n  merge next",
    "mindmap": "mindmap\n  root((Agent))\n    Timeline\n      Blocks\n    Tools",
}
TEXTS = {"no diagram": "flowchart TD\n  A[[[ -->", "a kind that is left out": "sankey-beta\n\nShips,Ferries,3"}
FERRY = "flowchart LR\n  accTitle: Which ferry\n  accDescr: The morning is cheaper.\n  A[Early?] -- yes --> B[Morning]"


def block(text: str) -> str:
    return f"```mermaid\n{text}\n```"


PLAYS = (
    conversation_script(
        "kinds", answers("\n\n".join(map(block, [*KINDS.values(), *TEXTS.values(), FERRY]))), title_reply("Kinds")
    ),
    conversation_script(
        "slowly",
        slow_reply(answers(f"{block(FERRY)}\n\n" + "and so on " * 60), chunk=4, delay_ms=40),
        title_reply("Slowly"),
    ),
)


def address(picture: Locator) -> str:
    return picture.get_attribute("src") or ""


def test_every_kind_is_drawn_and_what_is_none_stays_text(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    page = visit.open_page()
    visit.send_message("kinds")
    # They are drawn one after the other, and this is the last.
    expect(page.get_by_role("img", name="Which ferry")).to_be_visible()
    for kind in KINDS:
        picture = page.get_by_role("img", name=f"Diagram ({kind}").first
        assert picture.evaluate("(one) => one.naturalWidth") > 50, kind
    for text in TEXTS.values():
        expect(page.get_by_label("Code in mermaid").filter(has_text=text.split("\n")[0])).to_be_visible()
    expect(page.get_by_label("Code in mermaid")).to_have_count(len(TEXTS))
    expect(page.get_by_text("could not be drawn")).to_have_count(len(TEXTS))
    visit.close()


def test_a_diagram_has_words_its_source_and_the_colours_of_the_page(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    visit.page.emulate_media(color_scheme="light")
    page = visit.open_page()
    visit.send_message("slowly")
    picture = page.get_by_role("img", name="Diagram (flowchart): Which ferry: The morning is cheaper.")
    expect(picture).to_be_visible()
    light = address(picture)
    page.emulate_media(color_scheme="dark")
    expect(picture).not_to_have_attribute("src", light)
    dark = address(picture)
    page.get_by_role("button", name="Theme").click()
    expect(picture).not_to_have_attribute("src", dark)
    page.get_by_role("button", name="Source", exact=True).click()
    expect(page.get_by_label("Code in mermaid")).to_contain_text("accTitle: Which ferry")
    expect(picture).to_be_hidden()
    page.get_by_role("button", name="Diagram", exact=True).click()
    expect(picture).to_be_visible()
    visit.close()


def test_a_diagram_is_drawn_when_its_text_is_complete_and_not_before(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    page = visit.open_page()
    page.evaluate("window.drawn = 0; addEventListener('message', () => { window.drawn += 1; })")
    visit.send_message("slowly")
    growing = page.get_by_role("article", name="Answer in progress")
    expect(growing.get_by_label("Code in mermaid")).to_contain_text("flowchart LR")
    # Still while the rest of the answer is being written.
    expect(growing.get_by_role("img", name="Which ferry")).to_be_visible()
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    expect(page.get_by_role("img", name="Which ferry")).to_be_visible()
    assert page.evaluate("window.drawn") == 1
    visit.close()


def test_what_is_not_drawn_in_time_stays_text_and_the_next_is_drawn(browser: Browser, server: PageServer) -> None:
    visit = PageVisit(browser, server)
    page = visit.open_page()
    page.route("**/diagram.html", lambda route: route.fulfill(content_type="text/html", body="says nothing"))
    visit.send_message("slowly")
    frame = page.locator("iframe")
    expect(frame).to_have_count(1)
    expect(frame).to_have_count(0)
    expect(page.get_by_label("Code in mermaid")).to_be_visible()
    page.unroute_all()
    page.reload()
    expect(page.get_by_role("img", name="Which ferry")).to_be_visible()
    visit.close()
