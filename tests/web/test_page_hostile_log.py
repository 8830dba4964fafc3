"""Sources, and all else that a stored block can say, are shown as text: nothing of it runs or reaches out."""

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.harness.replies import answers, calls
from tests.web.hostile_harness import IMAGE, CanaryServer, check_harmless, hostile_blocks, short_payload
from tests.web.web_harness import PageServer, PageVisit, conversation_script, run_server
from timeloom.app import AgentSettings, build_turn_runner, open_session
from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.sources import NewSource, SourceRow, SourcesPool
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing import ScriptedModel
from timeloom.testing.samples import TS
from timeloom.tools.define import tool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

HEADER = ConversationStarted(tenant="local", project="default", user="somebody")
LOGGED = ConversationId("conv_1760000000000_everyblk")
NO_LINKS = (
    "javascript:window.hit=1",
    "JaVaScRiPt:window.hit=1//https://example.org",
    " javascript:window.hit=1",
    "java\tscript:window.hit=1",
    "data:text/html,<script>parent.hit=1</script>",
    "vbscript:window.hit=1",
    "blob:https://example.org/1",
    "//example.org/x",
    "/me",
    f'"><script>window.hit=1</script>{IMAGE}',
)


def sources(canary: str) -> tuple[SourceRow, ...]:
    """Pages and files whose every field is hostile, as the pool takes them in."""
    addresses = [*NO_LINKS, f'{canary}/page?"onmouseover="window.hit=1', f"https://example.org/{IMAGE}"]
    pages = [
        NewSource(
            title=f"{n} {short_payload(canary)}",
            url=url,
            domain=f"{IMAGE}.example" if n % 2 else "",
            published_time_iso=IMAGE if n % 3 else "2026-02-09",
            text=f"{IMAGE} ![x]({canary}/snippet.png) <script>window.hit=1</script>",
            mime="text/html",
            favicon=f"{canary}/icon.png",
            hosted_uri=f"{canary}/hosted",
            key=IMAGE,
            rn=IMAGE,
        )
        for n, url in enumerate(addresses, 1)
    ]
    file = NewSource(
        source_type="file",
        title=IMAGE,
        text=IMAGE,
        mime="text/html",
        artifact_path=f"fi:turn_1.files/{IMAGE}.txt",
        physical_path=f"turn_1/files/{IMAGE}.txt",
    )
    note = NewSource(source_type="manual", title=IMAGE, text=f"[x](javascript:window.hit=1) {IMAGE}")
    return SourcesPool().merge([*pages, note, file]).added


def registry(canary: str) -> ToolRegistry:
    async def search(context: ToolContext) -> Outcome:
        """Searches."""
        text = Artifact(path=f"fi:{context.turn_id}.files/{IMAGE}.txt", mime="text/plain", text=IMAGE, kind="display")
        kind = Artifact(path=f"fi:{context.turn_id}.files/kind", mime="constructor", text=IMAGE, kind="display")
        return Outcome(sources=sources(canary), status=IMAGE, status_mime="text/markdown", artifacts=(text, kind))

    async def fail(_context: ToolContext) -> Outcome:
        """Fails."""
        raise RuntimeError(f"{short_payload(canary)} went wrong")

    return ToolRegistry(
        (*react_tools(), tool("web.search", effect="pure")(search), tool("web.fail", effect="pure")(fail))
    )


async def seed(folder: Path, canary: str) -> ConversationId:
    """The conversation in which a tool brought the sources; beside it is one of all blocks there are."""
    async with await SqliteStore.open(folder) as store:
        cited = " ".join(f"[[S:{source.sid}]]" for source in sources(canary))
        steps = (
            calls("web.search"),
            calls("web.fail"),
            calls("__proto__"),
            calls("constructor"),
            answers(f"{short_payload(canary)} {cited}", short_payload(canary)),
        )
        model = ScriptedModel.from_text(json.dumps([{"reply": step} for step in steps]))
        session = await open_session(store, None, HEADER)
        turns = build_turn_runner(session, model, AgentSettings(data_dir=folder), lambda _: None, registry(canary))
        assert await turns.run("Find sources.") == "completed"
        await turns.titles.finish()
        await session.close()
        turn = TurnId("turn_1")
        drafts = [Draft(turn, TS, block) for block in hostile_blocks(canary)]
        await store.append(LOGGED, 0, [Draft(NO_TURN, TS, HEADER), *drafts])
        return session.conversation


@pytest.fixture(scope="module")
def canary() -> Iterator[CanaryServer]:
    canary = CanaryServer()
    yield canary
    canary.close()


@dataclass
class Seeded:
    """A server, and the conversation in which a tool brought sources."""

    server: PageServer
    found: ConversationId


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory, canary: CanaryServer) -> Iterator[Seeded]:
    folder = Path(tmp_path_factory.mktemp("hostile_log"))
    # In a thread of its own: the browser's has a loop that runs.
    with ThreadPoolExecutor(1) as apart:
        found = apart.submit(asyncio.run, seed(folder / "data", canary.address)).result()
    with run_server(folder, conversation_script("", {"reply": answers("I am here."), "repeat": True})) as running:
        yield Seeded(running, found)


@pytest.fixture
def visit(browser: Browser, seeded: Seeded) -> Iterator[PageVisit]:
    visit = PageVisit(browser, seeded.server, width=1400)
    visit.open_page()
    yield visit
    visit.close()


def look_at_everything(page: Page) -> None:
    """Open every expandable part: folded parts, the panels, each file, each block and the newest prompt."""
    for part in page.locator(".call-head, .fold, summary").all():
        part.click()
    page.get_by_role("button", name="Sources", exact=True).click()
    expect(page.get_by_role("complementary", name="Sources")).to_contain_text("window.hit=1")
    page.get_by_role("button", name="Files", exact=True).click()
    files = page.locator(".file-list button")
    expect(files).not_to_have_count(0)
    for n in range(files.count()):
        files.nth(n).click()
        page.get_by_role("button", name="All files").click()
    page.get_by_role("button", name="Inspector", exact=True).click()
    inspector = page.get_by_role("complementary", name="Inspector")
    blocks = int(page.get_by_role("option").first.get_attribute("aria-setsize") or 0)
    page.get_by_role("listbox", name="Blocks").focus()
    for seq in range(1, blocks + 1):
        page.keyboard.press("Home" if seq == 1 else "ArrowDown")
        expect(inspector.get_by_role("region", name=f"Block {seq}", exact=True)).to_be_visible()
    page.get_by_role("tab", name="Prompt").click()
    expect(inspector.get_by_label("Tail (never cached)")).to_be_visible()


def test_a_source_is_text_whatever_its_fields_say(visit: PageVisit, seeded: Seeded, canary: CanaryServer) -> None:
    page = visit.page
    page.goto(f"{visit.server.address}/#/c/{seeded.found}")
    expect(page.get_by_role("button", name="Fork here")).to_be_visible()
    wanted = sources(canary.address)
    for source in wanted:
        page.get_by_role("button", name=f"Source {source.sid}", exact=True).click()
        card = page.get_by_role("dialog", name=f"Source {source.sid}", exact=True)
        expect(card).to_contain_text(source.title)
        expect(card.get_by_text(re.compile(r"· \w+ \d+, 20"))).to_have_count(source.published_time_iso.count("2026"))
        expect(card.locator("a")).to_have_count(0 if source.url in ("", *NO_LINKS) else 1)
        check_harmless(visit, canary)
        page.keyboard.press("Escape")
        expect(card).to_be_hidden()
    page.get_by_role("button", name="Sources", exact=True).click()
    panel = page.get_by_role("complementary", name="Sources")
    expect(panel.get_by_role("listitem")).to_have_count(len(wanted))
    links = panel.locator("a").evaluate_all("(all) => all.map((one) => [one.href, one.target, one.rel])")
    assert [link[0].startswith(("http://127.0.0.1", "https://example.org/")) for link in links] == [True, True]
    assert {tuple(link[1:]) for link in links} == {("_blank", "noopener noreferrer")}
    panel.get_by_role("button", name="Open the file").click()
    files = page.get_by_role("complementary", name="Files")
    expect(files).to_contain_text(IMAGE)
    page.keyboard.press("Escape")
    look_at_everything(page)
    check_harmless(visit, canary)


def test_whatever_a_stored_block_says_is_text(visit: PageVisit, canary: CanaryServer) -> None:
    page = visit.page
    page.goto(f"{visit.server.address}/#/c/{LOGGED}")
    expect(page.get_by_role("note")).to_contain_text(short_payload(canary.address))
    look_at_everything(page)
    check_harmless(visit, canary)
