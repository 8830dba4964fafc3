"""Fixtures of the page tests: one browser per module."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.web.web_harness import launch_browser


# Not for longer: an open browser keeps an event loop running in this thread, and other tests start their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch_browser() as opened:
        yield opened
