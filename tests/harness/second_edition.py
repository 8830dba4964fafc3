"""Turns of edition 2 for tests of what a model writes."""

from collections.abc import Iterator

import pytest

from timeloom.core.render import editions
from timeloom.core.render.v1.renderer import V1_RENDERER

SECOND_EDITION = 2


@pytest.fixture
def second_edition(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return the number of edition 2; its prompts are those of edition 1 as long as it has no renderer of its own."""
    renderers = editions._RENDERERS  # pyright: ignore[reportPrivateUsage]
    if SECOND_EDITION not in renderers:
        monkeypatch.setitem(renderers, SECOND_EDITION, V1_RENDERER)
    yield SECOND_EDITION
