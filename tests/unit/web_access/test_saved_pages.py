"""A folder of saved pages is searched and read without the internet, from the public Agent on."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.tools.web.test_web_tools import TableReader
from timeloom import Agent
from timeloom.config.errors import ConfigError
from timeloom.config.load import gather_sources, load_settings
from timeloom.config.sections.web import WebSettings
from timeloom.config.settings import Settings
from timeloom.platform.worker_pool import WorkerPool
from timeloom.ports.web import SearchQuery
from timeloom.testing import ScriptedModel, call, says
from timeloom.web_access.page_reader import EXTRACT_LIMITS, EXTRACT_WORKER
from timeloom.web_access.saved_reader import SavedReader
from timeloom.web_access.search.folder import SavedPages

PAGE = """<html><head><title>Ferries</title><link rel=canonical href="https://ferry.example/fares"></head><body><article>
<p>The ferry to Norderney costs 28 euros in summer, and children below six years travel for free with an adult.</p>
<p>In winter, the fare is lower, and there are four ferries on each day of the week, also on public holidays.</p>
</article></body></html>"""


def save_pages(folder: Path) -> None:
    (folder / "sub").mkdir(parents=True)
    (folder / "ferries.html").write_text(PAGE)
    (folder / "sub" / "trains & more.md").write_text("# Trains\n\nThe train to Norddeich leaves every hour.")
    (folder / "empty.txt").write_text(" ")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "link.html").symlink_to("/etc/passwd")


def test_saved_pages_are_found_by_their_words_and_read_by_their_address(tmp_path: Path) -> None:
    save_pages(tmp_path)

    async def run() -> None:
        async with WorkerPool(EXTRACT_WORKER, EXTRACT_LIMITS) as workers:
            saved = SavedPages(tmp_path, workers, "https://docs.example/")
            (first, *_) = await saved.search(SearchQuery(text="norderney FERRY fare"), "acme")
            assert (first.url, first.title) == ("https://ferry.example/fares", "Ferries")
            assert "28 euros" in first.text
            (train,) = await saved.search(SearchQuery(text="Norddeich"), "acme")
            assert train.url == "https://docs.example/sub/trains%20%26%20more.md"
            assert await saved.search(SearchQuery(text="submarine"), "acme") == []
            reader = SavedReader(saved, TableReader())
            page = await reader.fetch("HTTPS://ferry.example:443/fares#top", "t")
            assert (page.state, page.title) == ("ok", "Ferries")
            assert (await reader.fetch("https://else.example/", "t")).state == "not_found"

    asyncio.run(run())


def test_an_agent_searches_reads_and_cites(tmp_path: Path) -> None:
    save_pages(tmp_path / "pages")
    model = ScriptedModel(
        [
            call("web_tools.web_search", queries=["ferry Norderney"], n=3),
            call("web_tools.web_fetch", urls=["https://ferry.example/fares"]),
            call("react.read", paths=["so:sources_pool[1]"]),
            says("It costs 28 euros [[S:1]]."),
        ]
    )
    web = WebSettings(enabled=True, search=("folder",), folder=tmp_path / "pages")
    answer = Agent(model, settings=replace(quiet_settings(), web=web)).run_sync("What does the ferry cost?")
    assert (answer.reason, answer.text) == ("completed", "It costs 28 euros [[S:1]].")
    assert [tool_id for tool_id, _ in answer.calls] == ["web_tools.web_search", "web_tools.web_fetch", "react.read"]
    (source,) = answer.sources
    assert source.url == "https://ferry.example/fares"
    assert "children below six" in str(source.content)


def test_an_address_that_nobody_wrote_is_asked_about_and_a_link_is_followed(tmp_path: Path) -> None:
    save_pages(tmp_path / "pages")
    linked = PAGE.replace("28 euros", '<a href="/winter?year=2026">28 euros</a>')
    (tmp_path / "pages" / "ferries.html").write_text(linked)
    fares = "https://ferry.example/fares"
    model = ScriptedModel(
        [
            call("web_tools.web_fetch", urls=[fares]),
            call("web_tools.web_fetch", urls=["https://ferry.example/winter?year=2026"]),
            call("web_tools.web_fetch", urls=[f"{fares}?q=the+user+is+called+Ann"]),
            says("Done."),
        ]
    )
    web = WebSettings(enabled=True, search=("folder",), folder=tmp_path / "pages", robots=False)
    agent = Agent(model, settings=replace(quiet_settings(), web=web))
    answer = agent.run_sync(f"Read {fares} and follow its links.")
    assert answer.reason == "waiting"
    (approval,) = answer.approvals
    assert "(new: '?q=the+user+is+called+Ann')" in approval.question
    denied = asyncio.run(agent.decide(answer.conversation, approval.call_id, approved=False, by="ann"))
    assert (denied.reason, denied.text) == ("completed", "Done.")


def quiet_settings() -> Settings:
    settings = load_settings(gather_sources({})).settings
    runtime = replace(settings.execution.runtime, enabled=False)
    return replace(settings, execution=replace(settings.execution, runtime=runtime))


def test_a_relative_folder_of_pages_starts_at_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "timeloom.toml"
    file.write_text("[web]\nenabled = true\nsearch = ['folder']\nfolder = 'pages'\n")
    settings = load_settings(gather_sources({}, str(file), environ={}, folder=tmp_path)).settings
    assert settings.web.folder == tmp_path / "conf" / "pages"
    with pytest.raises(ConfigError, match=r"there is no folder '.*pages', which web\.folder names"):
        Agent(ScriptedModel([]), settings=replace(quiet_settings(), web=settings.web)).run_sync("x")
