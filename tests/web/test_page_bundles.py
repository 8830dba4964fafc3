"""The page with several bundles: a new conversation chooses one, and an open one shows its name."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.harness.bundles import write_bundle, write_shop
from tests.harness.replies import answers
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply

PLAYS = (conversation_script("hours", answers("From 9 to 5."), title_reply("Opening hours")),)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = Path(tmp_path_factory.mktemp("bundles"))
    desk = 'name = "desk"\ntitle = "The desk"\ndescription = "Answers questions."'
    given = [write_shop(folder / "shop"), write_bundle(folder / "desk", desk), write_bundle(folder / "broken", "x = 1")]
    with run_server(folder, *PLAYS, bundles=given) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, server: PageServer) -> Iterator[PageVisit]:
    visit = PageVisit(browser, server)
    visit.open_page()
    yield visit
    visit.close()


def test_a_new_conversation_belongs_to_the_chosen_bundle(visit: PageVisit) -> None:
    page = visit.page
    choice = page.get_by_role("group", name="Choose what to talk to")
    expect(choice.get_by_role("radio", name="The shop")).to_be_checked()
    expect(choice.get_by_text("Answers questions.")).to_be_visible()
    expect(choice.get_by_role("radio", name="broken")).to_be_disabled()
    expect(choice.get_by_text("bundle.toml, line 1: there is no key")).to_be_visible()
    choice.get_by_role("radio", name="The desk").check()
    visit.send_message("Your hours?")
    expect(page.get_by_text("From 9 to 5.")).to_be_visible()
    expect(page.get_by_title("Bundle desk")).to_have_text("The desk")
    headers = {"authorization": f"Bearer {visit.server.token}"}
    listed = httpx2.get(f"{visit.server.address}/conversations/local/default", headers=headers).json()
    assert [one["bundle"] for one in listed["conversations"]] == ["desk"]
