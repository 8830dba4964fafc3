"""Every test of this folder runs in every edition of what a model reads and writes."""

from collections.abc import Iterator

import pytest

from tests.harness.context import EDITION


@pytest.fixture(params=[1, 2, 3], ids=["edition-1", "edition-2", "edition-3"], scope="module", autouse=True)
def edition(request: pytest.FixtureRequest) -> Iterator[int]:
    """The edition of the turns that the test runs."""
    number: int = request.param
    token = EDITION.set(number)
    yield number
    EDITION.reset(token)
