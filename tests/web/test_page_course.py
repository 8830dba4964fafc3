"""A turn that does not run straight on: stopped, steered, failed, forked, waited for, or read while it is written."""

import asyncio
import getpass
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.harness.replies import answers, calls, slow_reply, thinking_text
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply
from timeloom.core.blocks import (
    ApprovalDecided,
    ApprovalRequested,
    ConversationStarted,
    ModelAnswered,
    ResultStatus,
    RoundStarted,
    Titled,
    ToolCall,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.stores.sqlite import SqliteStore

LONG = " ".join(f"word{n}" for n in range(80))
BEGUN = 'Begun "now":\n\n'
LINES = "\n\n".join(f"Paragraph {n}" for n in range(400))
PROGRAM = "<channel:code>print('the program itself')</channel:code>"
FAILED: dict[str, object] = {"error": "overloaded"}

PLAYS = (
    conversation_script(
        "stop", slow_reply(thinking_text("A plan.") + answers(BEGUN + LONG * 20), delay_ms=60), title_reply("Stopped")
    ),
    conversation_script(
        "steer", slow_reply(answers(BEGUN + LONG * 20), delay_ms=60), answers("In short."), title_reply("Steered")
    ),
    conversation_script(
        "ponder",
        slow_reply(thinking_text(LONG) + answers(LONG * 4), chunk=16, delay_ms=100),
        answers("Again."),
        title_reply("Pondered"),
    ),
    conversation_script(
        "zebra",
        answers("Zebras have stripes."),
        answers("So do okapis."),
        answers("And tigers."),
        title_reply("Stripes"),
    ),
    conversation_script("twice", FAILED, FAILED, answers("At last."), title_reply("Twice")),
    conversation_script("never", FAILED | {"repeat": 5}, answers("Now it works."), title_reply("Never")),
    conversation_script("large", {"error": "context_too_long", "repeat": True}, title_reply("Large")),
    conversation_script(
        "nowhere",
        calls("react.read", paths=["fi:turn_1.files/nowhere.md"]),
        answers("It is not there."),
        title_reply("Nowhere"),
    ),
    conversation_script("scroll", slow_reply(answers(LINES), chunk=16, delay_ms=40), title_reply("Scrolled")),
    conversation_script(
        "program",
        calls("exec_tools.execute_code_python", contract=[], prog_name="totals") + PROGRAM,
        answers("Done."),
        title_reply("Program"),
    ),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = Path(tmp_path_factory.mktemp("course"))
    with run_server(folder, *PLAYS, TIMELOOM_POLICY_ASK_BEFORE="exec_tools.execute_code_python") as running:
        yield running


@pytest.fixture
def visit(browser: Browser, server: PageServer) -> Iterator[PageVisit]:
    visit = PageVisit(browser, server)
    yield visit
    visit.close()


def test_what_was_written_until_a_stop_stays_and_what_was_not_seen_says_so(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("I will stop you.")
    expect(page.get_by_role("article", name="Answer in progress")).to_contain_text("word9")
    visit.send_message("And one more thing")
    expect(page.locator(".message-followup")).to_contain_text("Not seen yet")
    page.get_by_role("button", name="Stop", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    expect(page.get_by_text("Stopped by the user.")).to_be_visible()
    expect(page.get_by_role("status", name="Announcements")).to_have_text("The turn was stopped.")
    for _ in range(2):
        expect(page.get_by_role("article", name="Unfinished answer")).to_have_text(
            re.compile(r'^Begun "now":\s*word0 .*word9')
        )
        expect(page.get_by_text("Stopped here")).to_be_visible()
        # What was said while it was written stands below it.
        expect(page.locator("article ~ .message")).to_have_count(2)
        expect(page.get_by_text("The model call failed")).to_have_count(0)
        expect(page.locator(".message-followup")).to_contain_text("The turn ended before the agent saw this")
        expect(page.locator(".message-steer")).to_contain_text("Stopped the turn")
        page.get_by_role("button", name="Thought").click()
        expect(page.get_by_text("A plan.")).to_be_visible()
        page.reload()


def test_what_was_written_until_a_steer_stays(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Let me steer you.")
    expect(page.get_by_role("article", name="Answer in progress")).to_contain_text("word9")
    page.get_by_role("textbox", name="Message").fill("Shorter!")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("article", name="Answer", exact=True)).to_have_text("In short.")
    expect(page.get_by_role("article", name="Unfinished answer")).to_have_text(
        re.compile(r'^Begun "now":\s*word0 .*word9')
    )
    expect(page.get_by_text("Steered here")).to_be_visible()
    expect(page.get_by_role("status", name="Announcements")).to_have_text("The answer is complete.")


def test_thoughts_end_where_the_answer_begins(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Please ponder.")
    expect(page.get_by_role("button", name="Thinking…")).to_be_visible()
    expect(page.get_by_role("article", name="Answer in progress")).to_be_visible()
    thinking = page.get_by_role("button", name=re.compile("^Thought for"))
    expect(thinking).to_be_visible()
    while_written = thinking.inner_text()
    expect(page.get_by_role("article", name="Answer", exact=True)).to_have_text(LONG * 4)
    assert thinking.inner_text() == while_written
    page.reload()
    expect(page.get_by_role("button", name="Thought", exact=True)).to_be_visible()


def test_a_message_can_be_put_otherwise_in_a_fork(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Tell me of zebras.")
    expect(page.get_by_text("Zebras have stripes.")).to_be_visible()
    visit.send_message("Who else?")
    expect(page.get_by_text("So do okapis.")).to_be_visible()
    before = page.url
    page.locator(".message", has_text="Who else?").hover()
    page.get_by_role("button", name="Fork before this").last.click()
    expect(page).not_to_have_url(before)
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Who else?")
    expect(page.get_by_text("Zebras have stripes.")).to_be_visible()
    expect(page.get_by_text("So do okapis.")).to_have_count(0)
    page.get_by_role("button", name="Fork before this").click()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Tell me of zebras.")
    expect(page.locator(".bubble")).to_have_count(0)


def test_a_program_that_waits_for_leave_is_shown_with_its_code(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Run a program.")
    question = page.get_by_role("group", name="May the agent run this program?")
    expect(question).to_contain_text("print('the program itself')")
    expect(question.locator(".params")).to_have_text(re.compile("program\\s*totals"))
    expect(page.get_by_role("button", name="Wants to run a program")).to_be_visible()
    expect(page.get_by_role("status", name="Announcements")).to_have_text("The agent is waiting for your approval.")
    question.get_by_role("button", name="Refuse").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    expect(page.get_by_text("Done.")).to_be_visible()
    refused = page.get_by_role("button", name="Was not allowed to run a program")
    expect(refused.locator(".call-time")).to_be_empty()


def test_failures_are_one_line_and_say_what_helps(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Fail twice.")
    expect(page.get_by_text("At last.")).to_be_visible()
    expect(page.locator(".event-line summary")).to_have_text(
        "The model call failed 2 times: overloaded. The call was retried."
    )

    page.goto(f"{visit.server.address}/#/")
    visit.send_message("This will never work.")
    expect(page.get_by_role("note")).to_contain_text("overloaded")
    expect(page.locator(".event-line summary")).to_have_text("The model call failed 5 times: overloaded.")
    expect(page.get_by_role("status", name="Announcements")).to_contain_text("Error: the turn ended without an answer.")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    expect(page.get_by_text("Now it works.")).to_be_visible()
    expect(page.locator(".bubble")).to_have_text(["This will never work."] * 2)

    page.goto(f"{visit.server.address}/#/")
    visit.send_message("This is too large.")
    expect(page.get_by_role("note")).to_contain_text("The same message will fail again")
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)


def test_a_read_of_nothing_has_failed(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Go nowhere.")
    expect(page.get_by_text("It is not there.")).to_be_visible()
    expect(page.locator(".call-failed")).to_contain_text("Could not read")
    expect(page.locator(".call-failed")).to_contain_text("Not found: fi:turn_1.files/nowhere.md")


def test_whoever_scrolled_up_comes_back_by_a_button_and_the_keyboard_to_the_composer(visit: PageVisit) -> None:
    page = visit.open_page()
    page.get_by_role("searchbox", name="Search conversations").focus()
    skip = page.get_by_role("button", name="Skip to the message field")
    skip.focus()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    visit.send_message("Let me scroll.")
    expect(page.get_by_text("Paragraph 60", exact=True)).to_be_visible()
    latest = page.get_by_role("button", name="Jump to latest")
    expect(latest).to_have_count(0)
    page.get_by_role("region", name="Messages").hover()
    page.mouse.wheel(0, -2000)
    latest.click()
    expect(latest).to_have_count(0)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped here")).to_be_in_viewport()


async def write_log(data: Path) -> None:
    """A call that took two seconds and a minute of waiting; then the model may be asked only with leave."""
    call_id, asked = CallId("call_a"), CallId("call_b")
    blocks = [
        ("00:00", TurnStarted(n=1)),
        ("00:00", UserPrompt(text="Hello?")),
        ("00:00", RoundStarted(round=1)),
        ("00:00", ModelAnswered(round=1, model="m", stop_reason="end", text="")),
        ("00:01", ToolCall(tool_id="react.write", tool_call_id=call_id)),
        ("00:01", ApprovalRequested(tool_call_id=call_id, tool_id="react.write", text="Is that right?")),
        ("01:01", ApprovalDecided(tool_call_id=call_id, approved=True, by="somebody")),
        ("01:03", ResultStatus(tool_call_id=call_id, text="written")),
        ("01:03", RoundStarted(round=2)),
        ("01:03", ApprovalRequested(tool_call_id=asked, tool_id="model", text="It is expensive.")),
        ("01:03", Titled(text="With leave")),
    ]
    header = ConversationStarted(tenant="local", project="default", user=getpass.getuser())
    drafts = [Draft(TurnId("turn_1"), f"2026-02-09T02:{at}.000000Z", block) for at, block in blocks]
    async with await SqliteStore.open(data) as store:
        conversation = ConversationId("conv_1760000000000_withleav")
        await store.append(conversation, 0, [Draft(NO_TURN, "2026-02-09T02:00:00.000000Z", header), *drafts])


def test_a_card_does_not_count_the_wait_and_leave_for_the_model_is_asked(browser: Browser, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as aside:
        aside.submit(lambda: asyncio.run(write_log(tmp_path / "data"))).result()
    with run_server(tmp_path, conversation_script("Hello", answers("Not asked."), answers("Hello!"))) as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        page.get_by_role("link", name="With leave").first.click()
        expect(page.get_by_role("button", name="Wrote a file")).to_contain_text("2.0 s")
        question = page.get_by_role("group", name="May the agent call the model?")
        expect(question).to_contain_text("It is expensive.")
        question.get_by_role("button", name="Allow").click()
        expect(page.get_by_role("article", name="Answer", exact=True)).to_have_text("Hello!")
        expect(page.get_by_role("button", name="Called the model")).to_be_visible()
        visit.close()
