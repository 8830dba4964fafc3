"""Forms on the page: a person fills in what the agent asks for, and an answered form stays answered."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.harness.replies import answers, calls
from tests.harness.repository import ROOT
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server, title_reply

EVIL = "<img src=x onerror=window.hit=1>"
FIELDS = [
    {"name": "name", "label": "Your name", "required": True},
    {"name": "people", "label": "How many people?", "type": "number"},
    {"name": "class_", "label": "Class", "type": "choice", "options": ["first", EVIL]},
    {"name": "extras", "label": "Extras", "type": "choices", "options": ["bike", "dog"]},
    {"name": "day", "label": "Which day?", "type": "date", "required": True},
    {"name": "back", "label": "And back?", "type": "yes_no"},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    plays = (
        conversation_script(
            "book",
            calls("react.form", title=f"Your trip {EVIL}", fields=FIELDS),
            answers("Please fill in the form."),
            answers("Booked."),
            title_reply("Trip"),
        ),
    )
    folder = Path(tmp_path_factory.mktemp("forms"))
    with run_server(folder, *plays, program=("-m", "tests.web.product_server"), PYTHONPATH=str(ROOT)) as running:
        yield running


def test_a_form_is_filled_in_and_stays_answered(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("book a trip")
    form = page.get_by_role("region", name="Your trip")
    form.get_by_label("Your name").fill("Ann")
    form.get_by_label("How many people?").fill("2")
    form.get_by_label("Class").select_option(EVIL)
    form.get_by_label("dog").check()
    form.get_by_role("group", name="And back?").get_by_role("radio", name="No").check()
    expect(page.get_by_text("Please fill in the form.")).to_be_visible()
    # A required field is empty.
    form.get_by_role("button", name="Send").click()
    assert page.get_by_text("Booked.").count() == 0
    form.get_by_label("Which day?").fill("2026-11-18")
    form.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Booked.")).to_be_visible()
    expect(form.get_by_text("Answered")).to_be_visible()
    shown = ["Ann", "2", EVIL, "dog", "2026-11-18", "No"]
    expect(form.locator("dd")).to_have_text(shown)
    page.reload()
    expect(page.get_by_role("region", name="Your trip").locator("dd")).to_have_text(shown)
    assert page.get_by_role("button", name="Send", exact=True).count() <= 1
    assert page.evaluate("window.hit") is None


def test_the_page_shows_why_an_answer_was_refused(visit: PageVisit) -> None:
    page = visit.page
    visit.send_message("book another trip")
    form = page.get_by_role("region", name="Your trip")
    form.get_by_label("Your name").fill(" ")
    form.get_by_label("Which day?").fill("2026-11-18")
    expect(page.get_by_text("Please fill in the form.")).to_be_visible()
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_role("alert")).to_contain_text("name is required")
    form.get_by_label("Your name").fill("Bob")
    form.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Booked.")).to_be_visible()
