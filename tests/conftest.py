"""Settings for all tests: the hypothesis profiles, and a check that each prompt extends the previous one.

`default` draws the same examples each time, so that a failure in one run is a failure in all. `thorough` draws new
ones: `TIMELOOM_HYPOTHESIS=thorough make test`.
"""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests import suites
from tests.harness.prompt_prefix import PREFIX_CHECK
from timeloom.app import observe_prompts

settings.register_profile("default", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("thorough", derandomize=False, deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("TIMELOOM_HYPOTHESIS", "default"))

pytest_configure = suites.pytest_configure
pytest_collection_modifyitems = suites.pytest_collection_modifyitems


@pytest.fixture(scope="session", autouse=True)
def every_prompt_is_observed() -> Generator[None]:
    """Observe all prompts of this process, also of servers that outlive a test or run in another thread."""
    with observe_prompts(PREFIX_CHECK):
        yield


@pytest.fixture(autouse=True)
def each_prompt_extends_the_one_before() -> Generator[None]:
    """Assert in every test that the cacheable part of a prompt only grows, unless entries were hidden or erased."""
    PREFIX_CHECK.reset()
    yield
    assert PREFIX_CHECK.failures == []
