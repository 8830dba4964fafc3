"""The inspector: every block of a timeline, the prompt of each round, and where its cache broke."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.harness.replies import answers, calls, slow_reply
from tests.web.web_harness import PageServer, PageVisit, Step, conversation_script, run_server, title_reply
from timeloom.core.tokens import estimate_tokens

FARES = "# Fares für Inseln\n\n" + "".join(f"- day {n}: €{n}.50, seat {n}A\n" for n in range(200))


def using(step: str, read: int, written: int, cost: int) -> Step:
    usage = {"input_tokens": 90, "cache_read_tokens": read, "cache_write_tokens": written, "output_tokens": 40}
    return {"reply": step, "usage": usage | {"cost_nano_usd": cost}}


FIRST: tuple[Step, ...] = (
    using(calls("react.write", "I write it down.", path="fares.md", content=FARES), 0, 4_600, 21_000_000),
    using(answers("The morning ferry, €12.50."), 4_600, 7_500, 9_000_000),
    title_reply("Fares"),
)


def second(turn: str) -> tuple[Step, ...]:
    hide = calls("react.hide", "Not needed.", path=f"fi:{turn}.files/fares.md", replacement="a list of fares")
    return using(hide, 12_100, 200, 6_000_000), using(answers("By noon."), 4_600, 700, 4_000_000)


@dataclass
class Served:
    """A user who inspects a conversation, and its blocks."""

    visit: PageVisit
    blocks: list[dict[str, str]]

    @property
    def page(self) -> Page:
        return self.visit.page

    @property
    def rounds(self) -> Locator:
        return self.page.get_by_role("group", name="Rounds")

    def look_at(self, turn: int, number: int) -> Page:
        """Opens the prompt of a round, by steps back from the last one."""
        page, wanted = self.page, f"Turn {turn}, round {number}"
        page.get_by_role("tab", name="Prompt").click()
        after, before = (page.get_by_role("button", name=f"{way} round") for way in ("Next", "Previous"))
        while after.is_enabled():
            after.click()
        while wanted not in self.rounds.inner_text():
            before.click()
        return page


@pytest.fixture(scope="module")
def served(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A user who inspects a conversation of two turns; the second hides the first one's file."""
    folder = Path(tmp_path_factory.mktemp("inspector"))
    with run_server(folder, conversation_script("fares", *FIRST)) as server:
        headers = {"authorization": f"Bearer {server.token}", "accept": "text/event-stream"}
        said = httpx2.post(f"{server.address}/chat/local/default", json={"message": "The fares?"}, headers=headers)
        turn, conversation = (re.search(rf'"{key}":"(\w+)"', said.text) for key in ("turn_id", "conversation_id"))
        assert turn and conversation
    hides, _ = second(turn[1])
    other = conversation_script("fares", *FIRST[:2], hides, using(answers("By one o'clock."), 900, 30, 2_000_000))
    (folder / "other.yaml").write_text(json.dumps([other]))
    (folder / "slow.yaml").write_text(
        json.dumps([conversation_script("fares", slow_reply(answers("Some day."), chunk=1, delay_ms=1_000))])
    )
    plays = conversation_script("fares", *FIRST, *second(turn[1]))
    with run_server(folder, plays, TIMELOOM_SERVER_MODELS="script:other.yaml,script:slow.yaml") as server:
        visit = PageVisit(browser, server, width=1440)
        page = visit.open_page()
        page.goto(f"{server.address}/#/c/{conversation[1]}")
        expect(page.get_by_text("The morning ferry")).to_be_visible()
        visit.send_message("When is it there?")
        expect(page.get_by_text("By noon.")).to_be_visible()
        page.get_by_role("button", name="Inspector").click()
        yield Served(visit, _blocks(server, conversation[1]))
        visit.close()


def test_the_strip_tells_the_whole_conversation(served: Served) -> None:
    picture = served.page.get_by_role("img", name=re.compile("^4 model calls"))
    expect(picture).to_have_accessible_name(
        "4 model calls in 2 turns, 21.3k tokens read from cache and 13.4k other tokens, 2 tool calls, "
        "context reduced before 1 round, $0.040 spent"
    )
    box = picture.bounding_box()
    assert box
    served.page.mouse.click(box["x"] + 5, box["y"] + 20)
    expect(served.rounds).to_contain_text("Turn 1, round 1")


def test_a_prompt_is_shown_as_it_was_sent_with_its_cache_points(served: Served) -> None:
    page = served.look_at(2, 1)
    expect(page.get_by_text("Identical to the prompt that was sent")).to_be_visible()
    expect(page.get_by_text("was sent again unchanged")).to_be_visible()
    figures = page.get_by_role("region", name="Usage")
    expect(figures).to_contain_text("From cache12.1k")
    expect(figures).to_contain_text("To cache200")
    expect(figures).to_contain_text("Cost$0.00600")
    sent = page.get_by_role("region", name="Prompt as sent")
    expect(sent.locator(".cache-point")).to_have_count(3)
    expect(sent.locator(".cache-point").last).to_contain_text("cached for 5 minutes")
    expect(sent.locator(".piece.cached")).not_to_have_count(0)
    expect(sent.get_by_label("Tail (never cached)")).to_contain_text("ANNOUNCE")


def test_the_first_block_that_broke_the_prefix_is_named_and_opens(served: Served) -> None:
    page = served.look_at(2, 2)
    seq = next(n for n, block in enumerate(served.blocks, 1) if block.get("path", "").endswith("files/fares.md"))
    expect(page.locator(".verdict-broke")).to_contain_text("content was hidden")
    page.get_by_role("button", name=re.compile(rf"^{seq} fi:turn_")).click()
    block = page.get_by_role("region", name=f"Block {seq}")
    expect(block.get_by_label("Block text")).to_have_text(FARES)


def test_every_block_has_its_type_path_size_and_tokens(served: Served) -> None:
    page = served.page
    page.get_by_role("tab", name="Timeline").click()
    rows = page.get_by_role("listbox", name="Blocks")
    rows.focus()
    page.keyboard.press("Home")
    for seq, block in enumerate(served.blocks, 1):
        row = page.locator(f"#block-{seq}")
        expect(row).to_have_attribute("aria-selected", "true")
        expect(row).to_contain_text(block["type"])
        if block["type"] != "react.model.call" and block.get("text"):
            expect(row.locator(".block-tokens")).to_have_text(f"{estimate_tokens(block['text']):,}")
        page.keyboard.press("ArrowDown")
    expect(page.get_by_role("region", name=f"Block {len(served.blocks)}")).to_contain_text("react.turn.end")


def test_blocks_are_found_by_type_path_or_text(served: Served) -> None:
    page = served.page
    page.get_by_role("tab", name="Timeline").click()
    page.get_by_label("Filter blocks").fill("react.hidden")
    expect(page.get_by_role("option")).to_have_count(1)
    page.get_by_label("Filter blocks").fill("")
    expect(page.get_by_text(f"{len(served.blocks)} blocks")).to_be_visible()


def test_rounds_are_stepped_through_with_the_keyboard(served: Served) -> None:
    page = served.look_at(2, 2)
    page.get_by_role("button", name="Previous round").focus()
    for expected in ("Turn 2, round 1", "Turn 1, round 2", "Turn 1, round 1"):
        page.keyboard.press("Enter")
        expect(served.rounds).to_contain_text(expected)
    expect(page.get_by_role("button", name="Previous round")).to_be_disabled()


def test_a_fork_before_a_round_has_what_was_there_then(served: Served) -> None:
    page = served.look_at(2, 1)
    before = page.url
    page.get_by_role("button", name="Fork before this round").click()
    expect(page.get_by_text("This is a fork")).to_be_visible()
    assert page.url != before
    expect(page.get_by_text("When is it there?")).to_be_visible()
    expect(page.get_by_text("By noon.")).to_be_hidden()
    page.goto(before)
    expect(page.get_by_text("By noon.")).to_be_visible()


def test_a_round_is_run_again_with_another_model_and_compared(served: Served) -> None:
    page = served.look_at(2, 1)
    before = page.url
    again = page.get_by_role("region", name="Run again")
    # Another model than the one that was asked is offered first.
    expect(again.get_by_label("Run again with")).to_have_value("script:other.yaml")
    again.get_by_role("button", name="Run again from this round").click()
    expect(again.get_by_role("status")).to_have_text("The results differ.")
    for name, recorded, rerun in (
        ("Requests", "2", "2"),
        ("Reply", "80", "80"),
        ("Cost", "$0.010", "$0.00800"),
        ("Round 2", "the answer", "the answer"),
        ("Ended", "completed", "completed"),
    ):
        row = again.get_by_role("row", name=re.compile(f"^{name}"))
        expect(row.get_by_role("cell")).to_have_text([recorded, rerun])
    expect(again.get_by_role("row", name=re.compile("^Round 1"))).to_contain_text("the same")
    expect(again.get_by_role("article", name="Recorded answer")).to_have_text("By noon.")
    expect(again.get_by_role("article", name="Re-run answer")).to_have_text("By one o'clock.")
    expect(again.get_by_label("Changes").locator(".added")).to_contain_text("By one o'clock.")
    again.get_by_role("link", name="Re-run", exact=True).click()
    expect(page.get_by_text("By one o'clock.").first).to_be_visible()
    assert page.url != before
    page.goto(before)
    # In the conversation: the comparison shows the same answer once it is loaded again.
    expect(page.get_by_role("region", name="Turn 2").get_by_text("By noon.")).to_be_visible()


def test_the_same_model_can_be_run_again(served: Served) -> None:
    page = served.look_at(1, 2)
    again = page.get_by_role("region", name="Run again")
    again.get_by_label("Run again with").select_option("script:script.yaml")
    again.get_by_role("button", name="Run again from this round").click()
    expect(again.get_by_role("status")).to_have_text("The model made the same decisions in every round.")
    expect(again.get_by_text("No changes.")).to_be_visible()


def test_a_run_that_takes_too_long_is_stopped(served: Served) -> None:
    page = served.look_at(1, 1)
    again = page.get_by_role("region", name="Run again")
    again.get_by_label("Run again with").select_option("script:slow.yaml")
    again.get_by_role("button", name="Run again from this round").click()
    expect(again.get_by_role("status")).to_have_text("Running: round 1…")
    again.get_by_role("button", name="Stop").click()
    expect(again.get_by_role("row", name="Ended")).to_contain_text("cancelled")
    expect(again.get_by_role("status")).to_contain_text("The re-run was broken off here. Run it again")


def test_a_run_is_looked_at_again_when_the_network_is_back(served: Served) -> None:
    page = served.look_at(1, 1)
    again = page.get_by_role("region", name="Run again")
    again.get_by_label("Run again with").select_option("script:slow.yaml")
    again.get_by_role("button", name="Run again from this round").click()
    expect(again.get_by_role("status")).to_have_text("Running: round 1…")
    for _ in range(2):
        page.context.set_offline(True)
        expect(again.get_by_role("status")).to_contain_text("The connection is lost.")
        expect(again.get_by_role("button", name="Run again from this round")).to_be_disabled()
        page.context.set_offline(False)
        expect(again.get_by_role("status")).to_have_text("Running: round 1…")
    again.get_by_role("button", name="Stop").click()
    expect(again.get_by_role("status")).to_contain_text("broken off here")


def test_a_run_whose_server_is_killed_is_shown_as_broken_off(browser: Browser, tmp_path: Path) -> None:
    own = conversation_script("fares", answers("By noon."), answers("Live."))
    (tmp_path / "slow.yaml").write_text(
        json.dumps([conversation_script("fares", slow_reply(answers("Some day."), chunk=1, delay_ms=60_000))])
    )

    def started(port: int = 0) -> AbstractContextManager[PageServer]:
        known = "the-same-after-a-restart"
        return run_server(
            tmp_path, own, port=port, TIMELOOM_SERVER_TOKEN=known, TIMELOOM_SERVER_MODELS="script:slow.yaml"
        )

    with started() as server:
        visit = PageVisit(browser, server, width=1440)
        page = visit.open_page()
        visit.send_message("The fares?")
        expect(page.get_by_text("By noon.")).to_be_visible()
        page.get_by_role("button", name="Inspector").click()
        page.get_by_role("tab", name="Prompt").click()
        again = page.get_by_role("region", name="Run again")
        again.get_by_role("button", name="Run again from this round").click()
        expect(again.get_by_role("status")).to_have_text("Running: round 1…")
        os.kill(server.pid, signal.SIGKILL)
        expect(again.get_by_role("status")).to_contain_text("The connection is lost.")
    with started(int(server.address.rpartition(":")[2])):
        expect(again.get_by_role("status")).to_contain_text("stopped in the middle of it")
        expect(again.get_by_role("row", name="Ended").get_by_role("cell")).to_have_text(["completed", "cancelled"])
        again.get_by_role("link", name="Re-run", exact=True).click()
        expect(page.locator(".turn-end")).to_contain_text("Cancelled. The program that ran this again stopped")
        expect(page.get_by_text("Live.")).to_be_hidden()
        visit.close()


def _blocks(server: PageServer, conversation: str) -> list[dict[str, str]]:
    url = f"{server.address}/conversations/local/default/{conversation}/timeline"
    return httpx2.get(url, headers={"authorization": f"Bearer {server.token}"}).json()["blocks"]
