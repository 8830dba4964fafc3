"""Hunks that fit at two neighbouring lines: where they overlap, the second place counts too."""

import pytest

from timeloom.core.patch import PatchError, plan_patch

HEAD = "--- a/f\n+++ b/f\n"


@pytest.mark.parametrize(
    ("before", "hunk"),
    [
        ("a\na\n", "-a\n+b\n"),
        ("a\na\na\n", " a\n-a\n+b\n"),
        ("x\na\na\ny\n", "-a\n+b\n"),
    ],
)
def test_a_hunk_that_fits_again_one_line_below_is_refused(before: str, hunk: str) -> None:
    with pytest.raises(PatchError) as refused:
        plan_patch(before, f"{HEAD}@@\n{hunk}")
    assert refused.value.code == "patch_ambiguous"
