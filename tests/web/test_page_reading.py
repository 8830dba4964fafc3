"""Reading beside the conversation: citations by keyboard and in files, pictures, data, documents with links."""

import re

from playwright.sync_api import FilePayload, Locator, expect

from tests.harness.replies import answers, calls, slow_reply
from tests.web.test_page_attaching import wire
from tests.web.web_harness import PageVisit, conversation_script, title_reply

FARES = FilePayload(name="fares.csv", mimeType="text/csv", buffer=b"ferry,fare\nmorning,12.5\n")
ROUTES = FilePayload(name="routes.csv", mimeType="text/csv", buffer=b"ferry,route\nmorning,north\n")
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="30" onload="alert(1)">'
    '<script>alert(2)</script><image href="https://example.org/a.png"/><rect width="60" height="30"/></svg>'
)
DOCUMENT = (
    "<!doctype html><h1>Fares</h1><a href='https://example.org/fares'>The company</a> <a href='#end'>To the end</a>"
    "<a href='second.html'>The second page</a><div style='height: 3000px'></div><p id=end>The end</p>"
    "<script>document.querySelector('h1').append(' that ran')</script>"
)

DIRECTIONS = """مرحبا بالعالم

Hello world

- واحد
- اثنان

| שלום | Hello |
|---|---|
| עולם | world |

```python
print("مرحبا")
```
"""
PROGRAM = "".join(f"def fare_{n}(trips: int) -> float:\n    return {n}.5 * trips  # euros\n" for n in range(20))

CITING = """Range [[S:1–2]], small [[s:1]], quoted [~[S:2]], code `[[S:1]]`.

    [[S:2]]

<div>[[S:1]]</div>

<pre>[[S:1]]</pre>
"""

TASKS = (
    "# What is left\n\n- [x] all the **bold** words\n- [ ] find the wombat\n- tea\n\n"
    "See [the company](https://example.org) of the `islands`, with many more words that go on and on beyond its end."
)

PLAYS = (
    conversation_script(
        "files",
        calls("react.write", path="notes.md", content="# Notes\n\nTwelve fifty [[S:1]], no more [[S:9]].\n"),
        calls("react.write", path="chart.svg", content=DRAWING),
        calls("react.write", path="fares.json", content='{"morning":[12.50,null,{}],"named":{"a":"[x, y]"}}'),
        calls("react.write", path="fares.html", content=DOCUMENT),
        answers("Cheap [[S:1]], north [[S:1-2]], odd [[S:2,9]] and unknown [[S:7]]."),
        title_reply("A rather long title of a conversation about ferries to the northern islands"),
    ),
    conversation_script(
        "citation",
        answers(CITING),
        title_reply("Citations"),
    ),
    conversation_script("arabic", answers(DIRECTIONS), title_reply("Directions")),
    conversation_script("program", answers(f"```python\n{PROGRAM}```"), title_reply("A program")),
    conversation_script("tasks", answers(TASKS), title_reply("Tasks")),
    conversation_script(
        "later", slow_reply(answers("A title comes after the answer. " * 5), delay_ms=100), title_reply("Named")
    ),
    conversation_script("short", answers("That was short."), title_reply("Short")),
)


def read_files(visit: PageVisit) -> None:
    visit.page.get_by_label("Files", exact=True).set_input_files([FARES, ROUTES])
    visit.send_message("Please write files.")
    expect(visit.page.get_by_role("button", name="Fork here")).to_be_visible()


def test_citations_are_reached_by_keyboard_and_count_in_files(visit: PageVisit) -> None:
    page = visit.page
    read_files(visit)
    told = page.locator(".answer")
    expect(told).to_contain_text("odd 2 [[S:9]] and unknown [[S:7]].")
    chips = told.get_by_role("button", name=re.compile(r"^Source \d"))
    expect(chips).to_have_text(["1", "1", "2", "2"])
    chips.nth(1).focus()
    card = page.get_by_role("dialog", name="Source 1")
    expect(card).to_contain_text("morning,12.5")
    page.keyboard.press("Tab")
    expect(card.get_by_role("button", name="Open the file")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(chips.nth(1)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(chips.nth(2)).to_be_focused()
    expect(page.get_by_role("dialog")).to_have_count(1)
    expect(page.get_by_role("dialog", name="Source 2")).to_contain_text("morning,north")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(chips.nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Files")
    expect(panel).to_contain_text("routes.csv")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.get_by_role("button", name=re.compile("^notes.md")).click()
    expect(panel.locator(".markdown")).to_contain_text("Twelve fifty 1, no more [[S:9]].")
    panel.get_by_role("button", name="Source 1").hover()
    expect(card).to_contain_text("morning,12.5")
    page.get_by_role("button", name="Sources").click()
    beside = page.get_by_role("complementary", name="Sources")
    expect(beside.get_by_role("button", name="Cited in turn 1")).to_have_count(2)
    beside.get_by_role("button", name="Cited in notes.md").click()
    expect(panel.get_by_role("heading", name="Notes")).to_be_visible()


def test_drawings_and_data_are_shown_and_a_document_stays_when_its_links_are_pressed(visit: PageVisit) -> None:
    page = visit.page
    read_files(visit)
    panel = page.get_by_role("complementary", name="Files")
    page.get_by_role("button", name=re.compile("^chart.svg")).click()
    expect(panel.get_by_role("img", name="chart.svg")).to_have_js_property("naturalWidth", 60)
    panel.get_by_role("button", name="Source", exact=True).click()
    expect(panel.locator("pre")).to_contain_text("onload")

    page.get_by_role("button", name=re.compile("^fares.json")).click()
    lines = '{\n  "morning": [\n    12.50,\n    null,\n    {}\n  ],\n  "named": {\n    "a": "[x, y]"\n  }\n}'
    expect(panel.locator("pre")).to_have_text(lines, use_inner_text=True)
    panel.get_by_role("button", name="Source", exact=True).click()
    expect(panel.locator("pre")).to_contain_text('{"morning":[12.50')

    page.get_by_role("button", name=re.compile("^fares.html")).click()
    document = panel.frame_locator("iframe")
    for heading in ("Fares", "Fares that ran"):
        for link, address in (("The company", "https://example.org/fares"), ("The second page", "second.html")):
            document.get_by_role("link", name=link).click()
            expect(document.get_by_role("status")).to_have_text(f"Links cannot be opened here. Address: {address}")
            expect(document.get_by_role("heading", name=heading, exact=True)).to_be_visible()
        if heading == "Fares":
            panel.get_by_role("button", name="Run scripts").click()
    document.get_by_role("link", name="To the end").click()
    expect(document.get_by_text("The end", exact=True)).to_be_in_viewport()
    assert len(visit.context.pages) == 1


def test_what_is_not_there_is_not_waited_for(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("Something short.")
    expect(page.get_by_text("That was short.")).to_be_visible()
    page.evaluate("fetch(location.hash.replace('#/c/', '/conversations/local/default/'), {method: 'DELETE'})")
    for _ in range(2):
        expect(page.get_by_text("This conversation does not exist, or you do not have access to it.")).to_be_visible()
        expect(page.get_by_text("Connection lost")).to_have_count(0)
        expect(page.get_by_role("textbox", name="Message")).to_have_count(0)
        page.goto(f"{visit.server.address}/#/c/conv_unknown")
    page.get_by_role("button", name="Start a new conversation").click()
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()


def test_a_fork_is_marked_and_the_panel_leaves_room(visit: PageVisit) -> None:
    page = visit.page
    read_files(visit)
    page.get_by_role("button", name="Fork here").click()
    marked = page.get_by_role("link", name=re.compile(r"northern islands \(fork of A rather long title"))
    expect(marked).to_have_attribute("aria-current", "page")
    page.get_by_role("button", name="Inspector").click()
    panel, chat = page.get_by_role("complementary", name="Inspector"), page.get_by_role("main")
    for width in (1280, 1024):
        page.set_viewport_size({"width": width, "height": 800})
        for name in ("Sources", "Files", "Inspector"):
            expect(chat.get_by_role("button", name=name, exact=True)).to_be_in_viewport(ratio=1)
        assert width_of(chat) >= 480
        assert width_of(chat.get_by_role("heading", level=1)) >= 150
    page.get_by_role("button", name="Conversations", exact=True).click()
    expect(marked).to_be_in_viewport()
    page.get_by_role("button", name="Close the list").click()

    page.set_viewport_size({"width": 1440, "height": 800})
    before = width_of(panel)
    divider = page.get_by_role("separator", name="Panel width")
    divider.focus()
    page.keyboard.press("ArrowRight")
    expect(divider).to_have_attribute("aria-valuenow", str(round(before) - 24))
    assert abs(width_of(panel) - (before - 24)) <= 1
    box = divider.bounding_box()
    assert box
    page.mouse.move(box["x"] + 4, 400)
    page.mouse.down()
    page.mouse.move(1000, 400, steps=5)
    page.mouse.up()
    expect(divider).to_have_attribute("aria-valuenow", "440")
    page.reload()
    page.get_by_role("button", name="Inspector").click()
    expect(divider).to_have_attribute("aria-valuenow", "440")
    assert abs(width_of(panel) - 440) <= 1


def test_excerpts_tasks_and_the_first_round_read_as_they_are_meant(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("My tasks, please.")
    item = page.get_by_role("listitem").filter(has_text="find the wombat")
    expect(item).to_have_css("list-style-type", "none")
    expect(page.get_by_role("listitem").filter(has_text="tea")).to_have_css("list-style-type", "disc")
    page.get_by_role("searchbox", name="Search conversations").fill("wombat")
    excerpt = page.get_by_role("list", name="Search results").locator(".hit")
    expect(excerpt).to_contain_text("bold words find the wombat tea See the company of the islands, with")
    expect(excerpt).not_to_contain_text(re.compile(r"[*`#]|\[|https"))
    page.get_by_role("searchbox", name="Search conversations").fill("")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    page.get_by_role("button", name="Inspector").click()
    panel = page.get_by_role("complementary", name="Inspector")
    expect(panel.get_by_role("img", name="1 model call in 1 turn")).to_be_visible()
    expect(panel.get_by_role("img", name="context reduced")).to_have_count(0)
    panel.get_by_role("tab", name="Prompt").click()
    expect(panel).to_contain_text("This is the first round, so there is no previous prompt")


def width_of(part: Locator) -> float:
    box = part.bounding_box()
    assert box
    return box["width"]


def test_every_form_of_a_citation_is_a_chip_and_is_copied_with_its_source(visit: PageVisit) -> None:
    page = visit.page
    page.get_by_label("Files", exact=True).set_input_files([FARES, ROUTES])
    visit.send_message("Every citation, please.")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    answer = page.get_by_role("article", name="Answer")
    expect(answer.get_by_role("button", name=re.compile("^Source"))).to_have_text(["1", "2", "1", "2", "1"])
    page.locator(".turn-foot").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    text, _, sources = copied.partition("\n\nSources:\n[1] ")
    replaced = CITING.replace("[[S:1–2]]", "[1][2]").replace("[[s:1]]", "[1]").replace("[~[S:2]]", "[2]")
    assert text == replaced.replace("<div>[[S:1]]", "<div>[1]").rstrip()
    assert "\n[2] routes.csv" in sources


def test_each_paragraph_has_the_direction_of_its_text(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("In arabic: مرحبا")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    direction = "(one) => getComputedStyle(one).direction"
    answer = page.get_by_role("article", name="Answer")
    places = ("p:has-text('مرحبا')", "p:has-text('Hello')", "ul", "th:has-text('שלום')", "td:has-text('world')", "pre")
    assert [answer.locator(place).evaluate(direction) for place in places] == ["rtl", "ltr", "rtl", "rtl", "ltr", "ltr"]
    composer = page.get_by_role("textbox", name="Message")
    composer.fill("שלום")
    assert composer.evaluate(direction) == "rtl"
    assert page.locator(".bubble").evaluate(direction) == "ltr"


def test_code_is_coloured_on_a_busy_machine_too(visit: PageVisit) -> None:
    page = visit.page
    wire(page).send("Emulation.setCPUThrottlingRate", {"rate": 40})
    visit.send_message("Write a program.")
    coloured = page.get_by_role("article", name="Answer").locator("pre .tk-keyword")
    expect(coloured.filter(has_text="def")).to_have_count(20)
    expect(coloured.filter(has_text="return")).to_have_count(20)
    expect(page.locator("pre .tk-comment")).to_have_count(20)


def test_the_title_names_the_conversation_before_it_has_one(visit: PageVisit) -> None:
    visit.send_message("Name it later.")
    expect(visit.page).to_have_title("Name it later. · timeloom")
    expect(visit.page).to_have_title("Named · timeloom")
