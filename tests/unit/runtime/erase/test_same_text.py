"""A text is found again in texts that quote a prompt of any edition."""

import pytest

from timeloom.core.render.foreign_text.fence import fence
from timeloom.core.render.v2.fence import fence_text
from timeloom.runtime.erase.same_text import SearchTexts

TEXT = "a first line\n[TURN turn_1] the second\n<channel:code> [[S:1]]\n✓ [1] the last"


@pytest.mark.parametrize(
    "quoted",
    [TEXT, fence(TEXT), fence(TEXT, 7), fence_text(TEXT), fence_text(TEXT, 7)],
    ids=["plain", "edition 1", "edition 1, numbered", "edition 2", "edition 2, numbered"],
)
def test_a_quoted_text_is_found(quoted: str) -> None:
    wanted = SearchTexts([TEXT], ())
    assert wanted.occur_in(f"before\n{quoted}\nafter")
    assert not wanted.occur_in(quoted.replace("second", "third"))
    assert not SearchTexts(["short"], ()).occur_in("short")
