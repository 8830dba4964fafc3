"""New texts that are not the whole file, or not only the file."""

import pytest

from timeloom.core.patch import PatchError, apply_patch, plan_patch

FILE = "import os\n\n\ndef f():\n    return os.sep\n"


def refused(before: str | None, patch: str) -> str:
    with pytest.raises(PatchError) as caught:
        plan_patch(before, patch)
    assert caught.value.code == "patch_malformed"
    return str(caught.value)


@pytest.mark.parametrize(
    "placeholder",
    [
        "# ... existing code ...",
        "    # ... rest of the function unchanged",
        "// ... existing code ...",
        "/* ... remaining styles ... */",
        "<!-- ... rest of the page ... -->",
        "-- … unchanged …",
        "... existing code ...",
        "[... rest of the file omitted ...]",
        "{/* ... existing props ... */}",
    ],
)
def test_a_new_text_that_leaves_lines_out_is_refused(placeholder: str) -> None:
    message = refused(FILE, f"import json\n{placeholder}\n")
    assert "line 2 of the new text" in message
    assert "as a diff" in message
    assert apply_patch(FILE + placeholder + "\n", f"import json\n{placeholder}\n") == f"import json\n{placeholder}\n"
    assert apply_patch("", f"import json\n{placeholder}\n") == f"import json\n{placeholder}\n"


@pytest.mark.parametrize(
    "line",
    [
        "...",
        "    ...",
        "... and the rest is silence",
        "# ...",
        "- ... the rest",
        "x = [...]  # existing",
        "# existing code",
    ],
)
def test_dots_alone_leave_nothing_out(line: str) -> None:
    assert apply_patch(FILE, f"import json\n{line}\n") == f"import json\n{line}\n"


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint()\n```\n",
        "\n~~~\nprint()\n~~~~\n\n",
        "```\nprint()\n```",
        "```markdown\n# Doc\n\n```py\nx\n```\n\nmore\n```\n",
        "````md\n# Doc\n\n```py\nx\n```\n````\n",
    ],
)
@pytest.mark.parametrize("before", [FILE, "", None])
def test_a_new_text_in_a_fence_is_refused(text: str, before: str | None) -> None:
    assert "without the fence" in refused(before, text)
    assert apply_patch(text, text + "more\n") == text + "more\n"
    assert apply_patch(text + "more\n", text) == text


@pytest.mark.parametrize(
    "text",
    [
        "```\n",
        "```python\nprint()\n",
        "```python\nprint()\n```\ntext\n",
        "```py\nx\n```\n\n```py\ny\n```\n",
        "text\n```py\nx\n```\n",
        "```py\nx\n~~~\n",
    ],
)
def test_a_text_with_fences_in_it_is_content(text: str) -> None:
    assert apply_patch(FILE, text) == text
    assert apply_patch("", text) == text
