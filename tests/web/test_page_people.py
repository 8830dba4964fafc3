"""People on the page: they sign in and out, see which model answers, and decide for others."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from tests.harness.replies import answers, calls
from tests.web.web_harness import PageServer, PageVisit, add_key, conversation_script, run_server, title_reply

PLAYS = (
    conversation_script(
        "danger",
        calls("react.write", path="danger.md", content="Dangerous words."),
        answers("It is written."),
        title_reply("A dangerous thing"),
    ),
    conversation_script("hello", answers("Hello."), title_reply("A greeting")),
)


class Team(NamedTuple):
    """A server with the keys of a user and an approver."""

    server: PageServer
    ann: str
    bob: str


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = Path(tmp_path_factory.mktemp("people"))
    keys = folder / "keys.toml"
    ann, bob = add_key(keys, "ann"), add_key(keys, "bob", "approver")
    with run_server(folder, *PLAYS, keys=keys, TIMELOOM_POLICY_ASK_BEFORE="react.write") as server:
        yield Team(server, ann, bob)


def test_who_signs_in_leaves_the_key_in_no_address_and_sees_no_old_notice(browser: Browser, team: Team) -> None:
    visit = PageVisit(browser, team.server)
    addresses: list[str] = []
    visit.context.on("request", lambda request: addresses.append(request.url))
    page = visit.page
    page.goto(team.server.address)
    expect(page.get_by_text("You are signed out")).to_have_count(0)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    page.get_by_label("Token").fill(team.ann)
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    expect(page.locator(".toast span")).to_have_count(0)
    assert [one for one in addresses if team.ann in one or "wrong" in one] == []
    assert f"{team.server.address}/login" in addresses
    assert page.evaluate("document.cookie") == ""
    visit.close()


def test_who_signs_out_leaves_nothing_behind(browser: Browser, team: Team) -> None:
    visit = PageVisit(browser, team.server)
    page = visit.sign_in(team.ann)
    visit.send_message("Say hello.")
    expect(page.get_by_text("Hello.", exact=True)).to_be_visible()
    page.get_by_role("textbox", name="Message").fill("a draft")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate("Object.keys(sessionStorage).length") == 0
    assert page.evaluate("fetch('/me').then((response) => response.status)") == 401
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()
    visit.close()


def test_an_approver_finds_what_waits_reads_it_and_decides(browser: Browser, team: Team) -> None:
    asking = PageVisit(browser, team.server)
    page = asking.sign_in(team.ann)
    asking.send_message("Do something of danger.")
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    expect(page.get_by_role("group", name="Waiting for approval").get_by_role("link")).to_have_count(1)
    expect(page.get_by_role("navigation").get_by_role("img", name="waiting for approval")).to_be_visible()

    deciding = PageVisit(browser, team.server)
    other = deciding.sign_in(team.bob)
    waiting = other.get_by_role("group", name="Waiting for approval")
    expect(waiting.get_by_role("link")).to_contain_text(["react.write"])
    expect(other).to_have_title(re.compile(r"^\(1\) "))
    waiting.get_by_role("link").click()
    expect(other.get_by_role("note")).to_contain_text("conversation of ann")
    expect(other.get_by_role("textbox", name="Message")).to_have_count(0)
    expect(other.get_by_role("button", name="Fork before this")).to_have_count(0)
    other.get_by_role("button", name="Allow").click()
    expect(other.get_by_text("It is written.")).to_be_visible()
    expect(waiting).to_be_hidden()
    expect(page.get_by_text("It is written.")).to_be_visible()
    expect(page.get_by_role("group", name="Waiting for approval")).to_be_hidden()
    for visit in (asking, deciding):
        visit.close()


def test_the_demo_model_is_named_with_a_way_to_a_real_one_and_three_examples(browser: Browser, tmp_path: Path) -> None:
    with run_server(tmp_path, model="local") as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        expect(page.locator(".demo")).to_contain_text("local is a small demo model.")
        expect(page.locator(".demo")).to_contain_text("--model anthropic:ID")
        examples = page.get_by_role("list", name="Examples").get_by_role("button")
        expect(examples).to_have_count(3)
        examples.nth(1).click()
        expect(page.get_by_role("button", name="Fork here")).to_be_visible()
        expect(page.get_by_role("article", name="Answer").locator("pre")).to_contain_text("Milk and pears")
        visit.close()


def test_another_model_is_named_without_examples(browser: Browser, tmp_path: Path) -> None:
    with run_server(tmp_path, *PLAYS) as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        expect(page.locator(".welcome")).to_contain_text("The model is script:script.yaml.")
        expect(page.get_by_role("list", name="Examples")).to_have_count(0)
        expect(page.locator(".who")).to_contain_text("script:script.yaml")
        visit.close()


def test_an_owner_who_may_not_decide_is_told_who_may(browser: Browser, tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    ann = add_key(keys, "ann")
    server = run_server(
        tmp_path, *PLAYS, keys=keys, TIMELOOM_POLICY_ASK_BEFORE="react.write", TIMELOOM_SERVER_APPROVALS="approver"
    )
    with server as running:
        visit = PageVisit(browser, running)
        page = visit.sign_in(ann)
        visit.send_message("Do something of danger.")
        expect(page.get_by_text("Only approvers and admins of this project can decide.")).to_be_visible()
        expect(page.get_by_text("Waiting for an approver", exact=True)).to_be_visible()
        expect(page.get_by_role("status", name="Announcements")).to_have_text("The agent is waiting for an approver.")
        expect(page.get_by_role("button", name="Allow")).to_have_count(0)
        expect(page.get_by_role("navigation").get_by_text("Do something of danger.")).to_be_visible()
        visit.close()


def test_a_wrong_token_in_the_address_leaves_no_trace_for_a_signed_in_user(browser: Browser, tmp_path: Path) -> None:
    with run_server(tmp_path, *PLAYS) as server:
        visit = PageVisit(browser, server)
        page = visit.open_page()
        page.goto(f"{server.address}/?token=wrong")
        expect(page.get_by_role("textbox", name="Message")).to_be_visible()
        expect(page).to_have_url(f"{server.address}/")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        visit.close()
