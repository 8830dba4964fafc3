"""Settings for all tests: the hypothesis profiles, and a check that each prompt extends the previous one.

`default` draws the same examples each time, so that a failure in one run is a failure in all. `thorough` draws new
ones: `TIMELOOM_HYPOTHESIS=thorough make test`.
"""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests import suites
from timeloom.core.render.segments import RenderedSegment, is_byte_prefix
from timeloom.runtime.prompt import builder
from timeloom.runtime.session.session import Session

settings.register_profile("default", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("thorough", derandomize=False, deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("TIMELOOM_HYPOTHESIS", "default"))

pytest_configure = suites.pytest_configure
pytest_collection_modifyitems = suites.pytest_collection_modifyitems


@pytest.fixture(autouse=True)
def each_prompt_extends_the_one_before() -> Generator[None]:
    """Assert in every test that the cacheable part of a prompt only grows, unless entries were hidden or erased."""
    last: dict[str, tuple[tuple[RenderedSegment, ...], int]] = {}

    def watch(session: Session, segments: tuple[RenderedSegment, ...]) -> None:
        forgotten = len(session.views.visible.gone) + session.views.conversation.erased
        before, was_forgotten = last.get(session.conversation, ((), forgotten))
        assert forgotten != was_forgotten or is_byte_prefix(before, segments), "a prompt changed what was sent before"
        last[session.conversation] = (segments, forgotten)

    builder.prompt_watchers.append(watch)
    yield
    builder.prompt_watchers.remove(watch)
