"""Measures the web page: how soon a long conversation is shown, and how smoothly it scrolls."""

import asyncio
import shutil
import statistics
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from bench.histories import write_history
from bench.measures import fresh_folder
from bench.report import BenchSection, BenchTable, Cell
from bench.serving.processes import TOKEN, serve_timeloom
from bench.settings import FULL, QUICK, BenchRun
from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HEADER: Final = ConversationStarted(tenant="local", project="default", user="somebody")
CONVERSATION: Final = ConversationId("conv_1760000000000_longlong")
NOWHERE: Final = "http://127.0.0.1:9"
"""An unused address: no model is called here."""

FRAMES: Final = 120
PATIENCE_MS: Final = 120_000

SHOWN: Final = """() => {
  const last = [...document.querySelectorAll(".turn")].at(-1);
  return last?.querySelector(".turn-end") && location.hash ? performance.now() : 0;
}"""
"""Returns the page's time at which the end of the last turn is drawn; before that, 0."""

PAINTED: Final = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0"""

SCROLLED: Final = """async ([selector, step, frames]) => {
  const box = document.querySelector(selector), times = [];
  let last = performance.now();
  for (let n = 0; n < frames; n++) {
    box.scrollTop += step;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times;
}"""


class _PageSizes(msgspec.Struct, frozen=True, kw_only=True):
    blocks: tuple[int, ...]
    visits: int


_FULL: Final = _PageSizes(blocks=(100, 1_000, 10_000), visits=7)
_QUICK: Final = _PageSizes(blocks=(100, 10_000), visits=3)
_TINY: Final = _PageSizes(blocks=(100,), visits=1)


def measure_page(run: BenchRun) -> BenchSection:
    """Measure Debian's Chromium with `timeloom serve` and conversations that the loop wrote."""
    sizes = _FULL if run.sizes is FULL else _QUICK if run.sizes is QUICK else _TINY
    opened: list[tuple[Cell, ...]] = []
    scrolled: list[tuple[Cell, ...]] = []
    for blocks in sizes.blocks:
        with fresh_folder(run.work) as folder:
            written = asyncio.run(_write(folder / "data", blocks))
            with serve_timeloom(folder / "data", NOWHERE) as (process, _), _launch_browser() as browser:
                visits = [_visit(browser, process.url, written) for _ in range(sizes.visits)]
        medians = map(statistics.median, zip(*(visit.opened for visit in visits), strict=True))
        opened.append((written, *medians))
        scrolled += [(written, what, *_frames(visits, what)) for what in visits[0].frames]
    return BenchSection(
        tables=(
            BenchTable(
                title="The page: opening a conversation",
                columns=("blocks", "first paint ms", "last turn shown ms", "inspector ms", "prompt of a round ms"),
                rows=tuple(opened),
                notes=(f"medians of {sizes.visits} visits, each with nothing kept of the one before",),
            ),
            BenchTable(
                title="The page: frames while scrolling",
                columns=("blocks", "what", "median ms", "p95 ms", "worst ms"),
                rows=tuple(scrolled),
                notes=(f"{FRAMES} frames of each visit; a screen of 60 Hz has one every 16.7 ms",),
            ),
        )
    )


class _VisitTimes(msgspec.Struct, frozen=True, kw_only=True):
    opened: tuple[float, float, float, float]
    frames: dict[str, list[float]]


async def _write(folder: Path, blocks: int) -> int:
    async with await SqliteStore.open(folder) as store:
        return await write_history(store, CONVERSATION, blocks, HEADER)


@contextmanager
def _launch_browser() -> "Generator[Browser]":
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the other subjects run without it

    with sync_playwright() as playwright:
        # Chromium's sandbox does not work as root, and small machines have a small /dev/shm.
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        with playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags) as browser:
            yield browser


def _visit(browser: "Browser", url: str, blocks: int) -> _VisitTimes:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    context.request.post(f"{url}/login", data={"token": TOKEN})
    page.goto(f"{url}/#/c/{CONVERSATION}")
    shown = page.wait_for_function(SHOWN).json_value()
    painted = page.evaluate(PAINTED)
    flow = page.evaluate(SCROLLED, [".message-list", -600, FRAMES])
    inspector = _time_until_shown(page, "button", "Inspector", ".block")
    rows = page.evaluate(SCROLLED, [".blocks", 32 * blocks / FRAMES, FRAMES])
    prompt = _time_until_shown(page, "tab", "Prompt", ".piece")
    context.close()
    return _VisitTimes(opened=(painted, shown, inspector, prompt), frames={"the chat": flow, "the blocks": rows})


def _time_until_shown(page: "Page", role: str, name: str, selector: str) -> float:
    """Return the time from a click until an element appears, by the page's clock."""
    started = page.evaluate("performance.now()")
    page.locator(f"[role={role}], {role}").filter(has_text=name).first.click()
    page.locator(selector).first.wait_for()
    return page.evaluate("performance.now()") - started


def _frames(visits: Sequence[_VisitTimes], what: str) -> tuple[float, float, float]:
    times = sorted(time for visit in visits for time in visit.frames[what])
    return statistics.median(times), times[int(len(times) * 0.95)], times[-1]
