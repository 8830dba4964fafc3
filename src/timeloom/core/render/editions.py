"""The editions of what a model reads and writes. A turn records its edition; the next turn may have a later one."""

from typing import Final

from timeloom.core.codes import CodedError
from timeloom.core.render.renderer import Renderer
from timeloom.core.render.v1.renderer import V1_RENDERER
from timeloom.core.render.v2.renderer import V2_RENDERER
from timeloom.core.render.v3.renderer import V3_RENDERER

FIRST_EDITION: Final = 1
SECOND_EDITION: Final = 2
THIRD_EDITION: Final = 3

_RENDERERS: Final[dict[int, Renderer]] = {
    FIRST_EDITION: V1_RENDERER,
    SECOND_EDITION: V2_RENDERER,
    THIRD_EDITION: V3_RENDERER,
}

EDITIONS: Final = tuple(_RENDERERS)


def renderer_for(edition: int) -> Renderer:
    """Return the renderer of an edition; raises `rendering_other` for one that this version does not have."""
    renderer = _RENDERERS.get(edition)
    if renderer is None:
        known = ", ".join(map(str, _RENDERERS))
        raise CodedError(
            "rendering_other", f"a turn has edition {edition}, and this timeloom knows {known}: use a newer version"
        )
    return renderer
