"""A conversation on the page, as a person holds it."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.harness.replies import answers, calls, slow_reply, thinking_text
from tests.web.web_harness import PageServer, PageVisit, conversation_script, title_reply

MARKDOWN = """## Ferries

The **morning** ferry is cheaper.

| Ferry | Fare |
|---|---:|
| Morning | €12.50 |

The saving is $$\\Delta = \\sum_{i=1}^{n} d_i$$ over $n$ trips.

```python
print("12.5")
```
"""
PROGRAM = (
    "<channel:code>import time\nprint('first line', flush=True)\ntime.sleep(1)\nprint('second line')</channel:code>"
)
PRINTING = """<channel:code>import time
for n in range(1000):
    print(f'line{n}', flush=True)
    time.sleep(0.2)
</channel:code>"""
LONG = " ".join(f"word{n}" for n in range(80))

PLAYS = (
    conversation_script(
        "ferry",
        slow_reply(
            thinking_text("Compare two fares.") + calls("fares.look_up", "I look it up.", route="islands"), delay_ms=40
        ),
        calls("exec_tools.execute_code_python", contract=[], prog_name="totals") + PROGRAM,
        slow_reply(answers(MARKDOWN, "Is there a night ferry?"), chunk=40, delay_ms=40),
        answers("There is none."),
        title_reply("Ferries to the islands"),
    ),
    conversation_script(
        "long", slow_reply(answers(LONG), delay_ms=30), answers("And this."), title_reply("A long answer")
    ),
    conversation_script(
        "steer", slow_reply(answers(LONG * 20), delay_ms=60), answers("In short."), title_reply("Steered")
    ),
    conversation_script("stop", slow_reply(answers(LONG * 20), delay_ms=60), title_reply("Stopped")),
    conversation_script("fail", title_reply("Failed")),
    conversation_script(
        "halfway", slow_reply(thinking_text(LONG) + answers(LONG * 20), delay_ms=60), title_reply("Halfway")
    ),
    conversation_script(
        "printing",
        calls("exec_tools.execute_code_python", contract=[], prog_name="lines") + PRINTING,
        answers("Printed."),
        title_reply("Printed"),
    ),
)


@pytest.fixture
def visit(browser: Browser, server: PageServer) -> Iterator[PageVisit]:
    visit = PageVisit(browser, server)
    yield visit
    visit.close()


def test_the_printed_address_lets_the_browser_in_and_keeps_no_token(visit: PageVisit) -> None:
    page = visit.open_page()
    assert page.url == f"{visit.server.address}/"
    assert page.evaluate("document.cookie") == ""
    kept = "JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage)])"
    assert visit.server.token not in page.evaluate(kept)


def test_the_policy_lets_nothing_run_that_stands_in_the_document(server: PageServer) -> None:
    policy = httpx2.get(f"{server.address}/").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_files_of_the_page_are_kept_by_browsers_and_sent_packed(server: PageServer) -> None:
    page = httpx2.get(f"{server.address}/")
    assert page.headers["cache-control"] == "no-cache"
    (script,) = re.findall(r'src="\./(assets/[^"]+)"', page.text)
    sent = httpx2.get(f"{server.address}/{script}", headers={"accept-encoding": "gzip"})
    assert sent.headers["content-type"].startswith("text/javascript")
    assert sent.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert sent.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("name", ["frame.html", "running.html"])
def test_the_frames_of_documents_have_no_origin_and_no_network(name: str, server: PageServer) -> None:
    policy = httpx2.get(f"{server.address}/{name}").headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; ")
    assert "connect-src" not in policy
    assert "allow-same-origin" not in policy
    assert ("script-src 'unsafe-inline'" in policy) == (name == "running.html")


def test_without_a_token_the_page_asks_for_one(visit: PageVisit) -> None:
    visit.page.goto(f"{visit.server.address}/?token=wrong")
    expect(visit.page.get_by_role("alert")).to_contain_text("not valid")
    visit.page.get_by_label("Token").fill(visit.server.token)
    visit.page.get_by_role("button", name="Sign in").click()
    expect(visit.page.get_by_role("textbox", name="Message")).to_be_visible()


def test_an_answer_comes_with_thoughts_calls_tables_code_and_formulas(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Which ferry is cheaper?")
    expect(page.locator(".output.live")).to_contain_text("first line")
    answered = page.get_by_role("article", name="Answer", exact=True)
    expect(answered.get_by_role("table")).to_contain_text("€12.50")
    expect(answered.locator("math")).to_have_count(2)
    expect(answered.locator("pre [class^=tk-string]").first).to_contain_text("12.5")
    answered.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == 'print("12.5")'

    thinking = page.get_by_role("button", name=re.compile("^Thought for"))
    expect(page.get_by_text("Compare two fares.")).to_be_hidden()
    thinking.click()
    expect(page.get_by_text("Compare two fares.")).to_be_visible()

    program = page.get_by_role("button", name=re.compile("Ran a program"))
    expect(program).to_contain_text("totals")
    expect(program).to_contain_text(re.compile(r"\d (ms|s)"))
    program.click()
    expect(page.locator(".call-body")).to_contain_text("second line")
    expect(page.locator(".call-failed")).to_contain_text("fares.look_up")
    expect(page).to_have_title("Ferries to the islands · timeloom")
    expect(page.get_by_role("link", name="Ferries to the islands")).to_have_attribute("aria-current", "page")

    page.get_by_role("button", name="Is there a night ferry?").click()
    expect(page.get_by_text("There is none.")).to_be_visible()


def test_a_reload_in_the_middle_of_an_answer_loses_nothing(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("A long one, please.")
    expect(page.get_by_text("word3")).to_be_visible()
    page.reload()
    finished = page.get_by_role("article", name="Answer", exact=True)
    expect(finished).to_have_text(LONG)
    expect(page.locator(".turn .bubble")).to_have_count(1)


def test_a_lost_network_in_the_middle_of_an_answer_loses_nothing(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("A long one, please.")
    expect(page.get_by_text("word3")).to_be_visible()
    visit.context.set_offline(True)
    expect(page.get_by_text("Connection lost")).to_be_visible()
    visit.context.set_offline(False)
    finished = page.get_by_role("article", name="Answer", exact=True)
    expect(finished).to_have_text(LONG)
    expect(page.locator(".turn .bubble")).to_have_count(1)
    expect(page.get_by_text("Connection lost")).to_be_hidden()


def begun(text: str) -> re.Pattern[str]:
    """All that was written so far, from its beginning."""
    return re.compile(f"^{re.escape(text)}")


def test_what_is_being_written_is_there_from_its_beginning_wherever_it_is_opened(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Stop me halfway.")
    on_its_way = page.get_by_role("article", name="Answer in progress")
    expect(on_its_way).to_contain_text("word9")
    other = visit.context.new_page()
    other.goto(page.url)
    # None of it is stored: the answer takes a minute and a half.
    expect(other.get_by_role("article", name="Answer in progress")).to_have_text(begun(LONG[:80]))
    other.get_by_role("button", name="Thought").click()
    expect(other.locator(".thinking")).to_contain_text(LONG)

    page.reload()
    expect(on_its_way).to_have_text(begun(LONG[:80]))
    visit.context.set_offline(True)
    expect(page.get_by_text("Connection lost")).to_be_visible()
    visit.context.set_offline(False)
    expect(page.get_by_text("Connection lost")).to_be_hidden()
    expect(on_its_way).to_have_text(begun(LONG[:200]))
    expect(other.get_by_role("article", name="Answer in progress")).to_have_text(begun(LONG[:200]))
    expect(page.get_by_role("article", name="Answer", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped by the user.")).to_be_visible()


def test_what_a_program_has_printed_is_there_after_a_reload_and_once(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Do some printing.")
    printed = page.locator(".output.live")
    expect(printed).to_contain_text("line5")
    page.reload()
    expect(printed).to_have_text(begun("line0\nline1\nline2\nline3\nline4\nline5\n"))
    visit.context.set_offline(True)
    expect(page.get_by_text("Connection lost")).to_be_visible()
    visit.context.set_offline(False)
    expect(page.get_by_text("Connection lost")).to_be_hidden()
    lines = "".join(f"line{n}\n" for n in range(20))
    expect(printed).to_have_text(begun(lines))
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped by the user.")).to_be_visible()


def test_a_follow_up_shows_when_the_agent_saw_it(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("A long one, please.")
    expect(page.get_by_text("word3")).to_be_visible()
    visit.send_message("And one more thing")
    late = page.locator(".message-followup")
    expect(late).to_contain_text("And one more thing")
    expect(late).to_contain_text("Seen by the agent at")
    expect(page.get_by_role("article", name="Answer", exact=True)).to_have_text([LONG, "And this."])


def test_a_steer_changes_the_course_at_once(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("Let me steer you.")
    expect(page.get_by_text("word3").first).to_be_visible()
    page.get_by_role("textbox", name="Message").fill("Shorter!")
    page.get_by_role("button", name="Steer", exact=True).click()
    expect(page.locator(".message-steer")).to_contain_text("Seen by the agent at")
    expect(page.get_by_text("In short.")).to_be_visible()


def test_a_turn_can_be_stopped(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("I will stop you.")
    expect(page.get_by_text("word3").first).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped by the user.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_hidden()


def test_a_model_that_fails_says_what_to_do(visit: PageVisit) -> None:
    page = visit.open_page()
    visit.send_message("You will fail.")
    expect(page.get_by_text("The model provider rejected the request as invalid.")).to_be_visible()
    expect(page.get_by_role("note")).to_contain_text("Use another model")


def test_a_conversation_that_is_not_there_says_so(visit: PageVisit) -> None:
    page = visit.open_page()
    page.goto(f"{visit.server.address}/#/c/conv_1_nothing0")
    expect(page.get_by_role("alert")).to_contain_text("does not exist")
