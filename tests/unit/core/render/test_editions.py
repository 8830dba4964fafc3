"""The editions of the rendering, and the edition that a turn records."""

import pytest

from timeloom.core.codes import CodedError
from timeloom.core.render.editions import FIRST_EDITION, renderer_for
from timeloom.core.render.v1.renderer import V1_RENDERER


def test_the_first_edition_records_the_number_2() -> None:
    assert renderer_for(FIRST_EDITION) is V1_RENDERER
    assert V1_RENDERER.number == 2


def test_an_unknown_edition_is_refused_with_what_to_do() -> None:
    with pytest.raises(CodedError, match="use a newer version") as refused:
        renderer_for(99)
    assert refused.value.code == "rendering_other"
