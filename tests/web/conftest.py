"""What the tests of the page share: one browser for each module."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.web.web_harness import browsing


# Not for longer: as long as it is open an event loop runs in this thread, and other tests bring their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened
