"""Fixtures of the page tests: a browser and a server per module, and a visit per test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser

from tests.web.web_harness import PageServer, PageVisit, launch_browser, run_server


class ModuleRequest(Protocol):
    """What fixtures read of pytest's request, whose module has no type."""

    module: Any


# Not for longer: an open browser keeps an event loop running in this thread, and other tests start their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(request: ModuleRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A server whose model follows the scripts in `PLAYS` of the module."""
    with run_server(Path(tmp_path_factory.mktemp("page")), *request.module.PLAYS) as running:
        yield running


@pytest.fixture
def visit(request: ModuleRequest, browser: Browser, server: PageServer) -> Iterator[PageVisit]:
    """The opened page, as wide as `WIDTH` of the module if it has one."""
    visit = PageVisit(browser, server, width=getattr(request.module, "WIDTH", 1280))
    visit.open_page()
    yield visit
    visit.close()
