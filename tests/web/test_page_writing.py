"""What the agent writes while it is written: files beside the chat and in it, follow-ups below, and approvals."""

import re
from pathlib import Path

import httpx2
from playwright.sync_api import Browser, Locator, expect

from tests.harness.replies import answers, calls, slow_reply
from tests.web.web_harness import PageVisit, conversation_script, run_server, title_reply

FIRST = "# First\n\n" + "One of many lines.\n\n" * 20
SECOND = "<h1>Second</h1>\n" + "<p>Another line.</p>\n" * 30
TABLE = "| Ferry | Fare |\n|---|---|\n" + "| Morning | 12.50 |\n" * 8
LONG = " ".join(f"word{n}" for n in range(60))

PLAYS = (
    conversation_script(
        "two files",
        slow_reply(calls("react.write", path="first.md", content=FIRST), delay_ms=80),
        slow_reply(calls("react.write", path="second.html", content=SECOND), delay_ms=40),
        answers("Both are written."),
        title_reply("Two files"),
    ),
    conversation_script(
        "in the chat",
        slow_reply(calls("react.write", path="table.md", channel="timeline_text", content=TABLE), delay_ms=40),
        answers("There it is."),
        title_reply("In the chat"),
    ),
    conversation_script(
        "long",
        slow_reply(answers(LONG), delay_ms=30),
        slow_reply(answers("And this."), delay_ms=30),
        title_reply("A long answer"),
    ),
    conversation_script(
        "wait",
        slow_reply(calls("react.write", path="plan.md", content=FIRST), delay_ms=20),
        answers("Refused."),
        title_reply("Waits"),
    ),
)


def test_the_panel_follows_the_newest_file(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("Write two files.")
    panel = page.get_by_role("complementary", name="Files")
    draft = panel.get_by_role("region", name="File in progress")
    expect(draft).to_contain_text("Writing first.md")
    expect(draft).to_contain_text("Writing second.html")
    expect(draft.locator(".code-head").first).to_contain_text("html")
    expect(page.get_by_text("Both are written.")).to_be_visible()
    expect(panel.locator("strong.file-name")).to_have_text("second.html")


def test_a_file_that_the_person_chose_stays_and_the_newest_is_offered(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("Write two files.")
    panel = page.get_by_role("complementary", name="Files")
    page.get_by_role("button", name=re.compile("^first.md")).click()
    expect(panel.get_by_role("heading", name="First")).to_be_visible()
    expect(panel.get_by_role("status")).to_contain_text("Writing second.html")
    expect(panel.locator("strong.file-name")).to_have_text("first.md")
    panel.get_by_role("button", name="Show").click()
    expect(panel.get_by_role("region", name="File in progress")).to_contain_text("Another line.")
    expect(page.get_by_text("Both are written.")).to_be_visible()
    expect(panel.locator("strong.file-name")).to_have_text("second.html")


def test_a_file_for_the_chat_is_shown_in_the_chat_while_it_is_written_and_after(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("Put it in the chat.")
    expect(page.locator(".live .chat-text").get_by_role("cell", name="12.50").first).to_be_visible()
    expect(page.get_by_role("complementary", name="Files")).to_be_hidden()
    expect(page.get_by_text("There it is.")).to_be_visible()
    expect(page.locator(".turn .chat-text").get_by_role("row")).to_have_count(9)
    page.reload()
    expect(page.locator(".turn .chat-text").get_by_role("row")).to_have_count(9)


def height(one: Locator) -> float:
    box = one.bounding_box()
    assert box
    return box["y"]


def test_a_follow_up_stays_below_the_answer_that_never_saw_it(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("A long one, please.")
    expect(page.get_by_text("word3")).to_be_visible()
    visit.send_message("And one more thing")
    late = page.locator(".message-followup")
    expect(late).to_contain_text("Not seen yet")
    growing = page.get_by_role("article", name="Answer in progress")
    assert height(growing.or_(page.locator(".turn .answer")).first) < height(late)
    expect(page.get_by_role("article", name="Answer", exact=True)).to_have_text([LONG, "And this."])
    for _ in range(2):
        answered = page.get_by_role("article", name="Answer", exact=True)
        expect(answered).to_have_count(2)
        assert height(answered.first) < height(late) < height(answered.last)
        page.reload()


def test_every_answer_of_a_turn_can_be_copied_and_rated(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("A long one, please.")
    expect(page.get_by_text("word3")).to_be_visible()
    visit.send_message("And one more thing")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    expect(page.get_by_role("button", name="Good answer")).to_have_count(2)
    copies = page.locator(".turn-foot").get_by_role("button", name="Copy")
    for at, text in enumerate((LONG, "And this.")):
        copies.nth(at).click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == text
        expect(page.get_by_role("button", name="Copied")).to_be_hidden()


def test_alerts_and_forms_are_shown_as_what_they_are(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("A long one, please.")
    expect(page.get_by_text("word3")).to_be_visible()
    conversation = page.url.rpartition("/")[2]
    events = (
        {"kind": "alert", "text": "The disk is nearly full."},
        {"kind": "form", "mime": "application/json", "text": '{"name": "Ann", "guests": 3, "extra": {"dog": true}}'},
    )
    for event in events:
        url = f"{visit.server.address}/events/local/default/{conversation}"
        httpx2.post(url, json=event, headers={"authorization": f"Bearer {visit.server.token}"}).raise_for_status()
    alert = page.get_by_role("group", name="Alert")
    expect(alert).to_contain_text("The disk is nearly full.")
    form = page.get_by_role("group", name="Form")
    expect(form.get_by_role("term")).to_have_text(["name", "guests", "extra"])
    expect(form.get_by_role("definition").first).to_have_text("Ann")
    expect(page.locator(".message-event .bubble")).to_have_count(0)
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()


def test_nothing_is_being_written_while_an_approval_waits(browser: Browser, tmp_path: Path) -> None:
    with run_server(tmp_path, *PLAYS, TIMELOOM_POLICY_ASK_BEFORE="react.write") as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        visit.send_message("Please wait for me.")
        expect(page.get_by_role("button", name="Allow")).to_be_visible()
        panel = page.get_by_role("complementary", name="Files")
        expect(panel).to_contain_text("plan.md waits for approval")
        expect(page.get_by_text(re.compile("Writing|Thinking…|Working"))).to_have_count(0)
        expect(page.locator(".shimmer")).to_have_count(0)
        page.get_by_role("button", name="Refuse").click()
        expect(page.get_by_text("Refused.")).to_be_visible()
        visit.close()


def test_an_internal_file_is_neither_counted_nor_offered(browser: Browser, tmp_path: Path) -> None:
    write = calls("react.write", path="own.md", channel="internal", content="Own notes.")
    shown = calls("react.write", path="shown.md", content="For you.")
    with run_server(tmp_path, conversation_script("write", write, shown, answers("Both written."))) as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        visit.send_message("Please write.")
        expect(page.get_by_text("Both written.")).to_be_visible()
        expect(page.locator(".call-files").get_by_role("button")).to_contain_text(["shown.md"])
        expect(page.locator(".file-chip.internal")).to_contain_text("own.md")
        expect(page.get_by_role("button", name="Files", exact=True)).to_contain_text("1")
        visit.close()


def test_an_answer_outside_the_format_is_marked(browser: Browser, tmp_path: Path) -> None:
    plain = ["It will rain tomorrow."] * 3
    with run_server(tmp_path, conversation_script("weather", *plain)) as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        visit.send_message("What about the weather?")
        expect(page.get_by_role("article", name="Answer")).to_have_text("It will rain tomorrow.")
        expect(page.get_by_role("note")).to_contain_text("did not keep to the reply format")
        visit.close()
