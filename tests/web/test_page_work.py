"""Work beside the chat: sources, files, approvals, conversations and feedback."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Route, expect

from tests.harness.replies import answers, calls
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply

PAGE = "<!doctype html><title>Fares</title><h1>Fares</h1><p id=p></p><script>p.textContent = 'script ran'</script>"
NEWER = PAGE.replace("<h1>Fares", "<h1>New fares")
FARES = FilePayload(name="fares.csv", mimeType="text/csv", buffer=b"ferry,fare\nmorning,12.5\nevening,19\n")

PLAYS = (
    conversation_script(
        "plan",
        calls("react.plan", "First a plan.", mode="new", steps=["Read the fares", "Answer"]),
        calls("react.write", "✓ [1] read", path="files/fares.html", content=PAGE, channel="canvas", kind="display"),
        calls("react.write", path="files/fares.html", content=NEWER, channel="canvas", kind="display"),
        answers("✓ The morning one is cheaper [[S:1]].", "Is there a night ferry?"),
        title_reply("Ferries to the islands"),
    ),
    conversation_script(
        "danger", calls("react.write", path="files/a.md", content="# A note"), answers("Done."), title_reply("Danger")
    ),
    conversation_script(
        "refusal",
        calls("react.write", path="files/b.md", content="# B note"),
        answers("As you wish."),
        title_reply("Refusal"),
    ),
    conversation_script(
        "zebra", answers("Zebras have stripes."), answers("Still stripes."), title_reply("About zebras")
    ),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = Path(tmp_path_factory.mktemp("work"))
    (folder / "timeloom.toml").write_text("")
    with run_server(folder, *PLAYS) as running:
        yield running


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = Path(tmp_path_factory.mktemp("asking"))
    with run_server(folder, *PLAYS, TIMELOOM_POLICY_ASK_BEFORE="react.write") as running:
        yield running


@pytest.fixture
def visit(browser: Browser, server: PageServer) -> Iterator[PageVisit]:
    visit = PageVisit(browser, server, width=1400)
    yield visit
    visit.close()


def test_a_plan_sources_and_files_are_shown_beside_the_answer(visit: PageVisit) -> None:
    page = visit.open_page()
    page.get_by_label("Files", exact=True).set_input_files(FARES)
    expect(page.get_by_role("list", name="Files to send")).to_contain_text("fares.csv")
    visit.send_message("Make a plan and compare.")
    steps = page.get_by_role("group", name="Plan").get_by_role("listitem")
    expect(steps).to_have_text([re.compile("Read the fares"), re.compile("Answer")])
    expect(steps.first).to_have_attribute("data-status", "done")
    expect(page.get_by_role("list", name="Attachments")).to_contain_text("fares.csv")

    page.get_by_role("button", name="Source 1").hover()
    card = page.get_by_role("dialog", name="Source 1")
    expect(card).to_contain_text("fares.csv")
    expect(card).to_contain_text("morning,12.5")
    page.get_by_role("button", name="Sources").click()
    panel = page.get_by_role("complementary", name="Sources")
    expect(panel).to_contain_text("Cited in turn 1")
    # The file that the agent wrote is a source too.
    panel.get_by_role("button", name="Open the file").first.click()
    files = page.get_by_role("complementary", name="Files")
    expect(files.get_by_role("table")).to_contain_text("12.5")


def test_a_file_is_shown_in_its_versions_with_what_changed_and_can_be_kept(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Make a plan and compare.")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    page.get_by_role("button", name=re.compile("^fares.html")).last.click()
    files = page.get_by_role("complementary", name="Files")
    frame = files.frame_locator("iframe")
    expect(frame.get_by_role("heading")).to_have_text("New fares")
    expect(frame.locator("p")).not_to_have_text("script ran")
    files.get_by_role("button", name="Run scripts").click()
    expect(frame.locator("p")).to_have_text("script ran")
    files.get_by_role("button", name="Changes").click()
    expect(files.locator(".diff .added")).to_contain_text("New fares")
    files.get_by_role("button", name="Preview").click()
    files.get_by_label("Version").select_option(index=0)
    expect(frame.get_by_role("heading")).to_have_text("Fares")
    with page.expect_download() as kept:
        files.get_by_role("link", name="Download").click()
    assert kept.value.suggested_filename == "fares.html"
    page.keyboard.press("Escape")
    expect(files).to_be_hidden()


@pytest.mark.parametrize(
    ("word", "button", "outcome", "card"),
    [
        ("danger", "Allow", "Done.", "Wrote a file"),
        ("refusal", "Refuse", "As you wish.", "not allowed to write a file"),
    ],
)
def test_a_call_waits_for_a_person(
    browser: Browser, asking: PageServer, word: str, button: str, outcome: str, card: str
) -> None:
    visit = PageVisit(browser, asking)
    page = visit.open_page()
    visit.send_message(f"This is {word}.")
    question = page.get_by_role("group", name="May the agent call")
    expect(question).to_contain_text("react.write")
    expect(question).to_contain_text("files/")
    page.reload()
    question.get_by_label("Note to the agent").fill("my word")
    question.get_by_role("button", name=button).click()
    expect(page.get_by_text(outcome)).to_be_visible()
    page.get_by_role("button", name=re.compile(card)).click()
    expect(page.locator(".call-body")).to_contain_text("my word")
    visit.close()


def test_files_come_by_drag_and_paste_and_a_refusal_says_why(visit: PageVisit) -> None:
    page = visit.open_page()
    drop = """([form, event]) => {
        const data = new DataTransfer();
        data.items.add(new File(["a,b"], event + ".csv", {type: "text/csv"}));
        const given = {clipboardData: data, dataTransfer: data, bubbles: true, cancelable: true};
        const made = event === "paste" ? new ClipboardEvent("paste", given) : new DragEvent("drop", given);
        document.querySelector(form).dispatchEvent(made);
    }"""
    page.evaluate(drop, [".composer", "drop"])
    page.evaluate(drop, ["#composer", "paste"])
    waiting = page.get_by_role("list", name="Files to send")
    expect(waiting.get_by_role("listitem")).to_have_count(2)
    page.get_by_label("Files", exact=True).set_input_files(
        [FilePayload(name="empty.txt", mimeType="text/plain", buffer=b"")]
    )
    expect(waiting.get_by_role("alert")).to_have_text("This file is empty.")
    page.get_by_role("button", name="Remove empty.txt").click()
    page.get_by_label("Files", exact=True).set_input_files(
        [FilePayload(name="program.bin", mimeType="application/octet-stream", buffer=b"\x00\x01\x02")]
    )
    visit.send_message("About a zebra")
    expect(waiting.get_by_role("alert")).to_contain_text("This file type is not supported.")
    expect(waiting.locator(".refused")).to_have_count(1)
    page.get_by_role("button", name="Remove program.bin").click()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Zebras have stripes.")).to_be_visible()
    expect(page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_count(2)


def test_as_many_files_are_taken_as_the_server_takes(browser: Browser, tmp_path: Path) -> None:
    with run_server(
        tmp_path,
        *PLAYS,
        TIMELOOM_SERVER_LIMITS_MAX_UPLOADS="2",
        TIMELOOM_SERVER_LIMITS_MAX_UPLOAD_BYTES="50000",
    ) as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        large = FilePayload(name="large.txt", mimeType="text/plain", buffer=b"x" * 50_001)
        page.get_by_label("Files", exact=True).set_input_files([large, FARES, FARES, FARES])
        refused = page.get_by_role("list", name="Files to send").get_by_role("alert")
        expect(refused.first).to_have_text("The files of a message can have at most 50 KB in total.")
        expect(refused.last).to_have_text("A message can have at most 2 files.")
        expect(refused).to_have_count(2)
        visit.close()


def test_a_conversation_is_found_renamed_forked_erased_and_deleted(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Tell me of zebras.")
    expect(page).to_have_title("About zebras · timeloom")
    page.get_by_role("searchbox", name="Search conversations").fill("stripes")
    found = page.get_by_role("list", name="Search results")
    expect(found).to_contain_text("Zebras have stripes.")
    page.get_by_role("searchbox", name="Search conversations").fill("")

    menu = page.locator(".current").get_by_role("button", name=re.compile("^Actions for"))
    menu.click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_role("textbox", name="Title").fill("Stripes")
    page.get_by_role("button", name="Rename").click()
    expect(page).to_have_title("Stripes · timeloom")

    before = page.url
    page.get_by_role("button", name="Fork here").click()
    expect(page).not_to_have_url(before)
    expect(page.get_by_text("Zebras have stripes.")).to_be_visible()
    visit.send_message("And now?")
    expect(page.get_by_text("Still stripes.")).to_be_visible()

    menu.click()
    page.get_by_role("menuitem", name="Erase").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Erase").click()
    expect(page.get_by_text("Still stripes.")).to_be_hidden()
    menu.click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("What shall we work on?")).to_be_visible()
    page.goto(before)
    expect(page.get_by_text("Zebras have stripes.")).to_be_visible()


def test_a_conversation_that_has_no_title_yet_can_be_named(visit: PageVisit) -> None:
    def without_titles(route: Route) -> None:
        listed = route.fetch()
        found = listed.json()
        for one in found["conversations"]:
            one.pop("title", None)
        route.fulfill(response=listed, json=found)

    page = visit.open_page()
    visit.send_message("Tell me of zebras.")
    expect(page).to_have_title("About zebras · timeloom")
    page.route(re.compile(r"/conversations/[^/]+/[^/]+\?limit="), without_titles)
    page.goto(visit.server.page)
    page.get_by_role("button", name="Actions for Untitled").first.click()
    page.get_by_role("menuitem", name="Rename").click()
    expect(page.get_by_role("textbox", name="Title")).to_have_value("")
    page.unroute_all()


def test_a_thumb_with_a_comment_stays(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Tell me of zebras.")
    page.get_by_role("button", name="Bad answer").click()
    page.get_by_label("What was wrong?").fill("Too short")
    page.get_by_role("button", name="Send", exact=True).first.click()
    expect(page.get_by_text("“Too short”")).to_be_visible()
    page.reload()
    expect(page.get_by_text("“Too short”")).to_be_visible()
    expect(page.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Bad answer").click()
    expect(page.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "false")
