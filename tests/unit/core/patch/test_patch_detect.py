"""The shapes in which edits are written: each is applied as it says, or refused, or content."""

import pytest

from timeloom.core.patch import PatchError, apply_patch, parse_patch, plan_patch

FILE = "import os\nimport sys\n"
DONE = "import json\nimport sys\n"
BODY = "-import os\n+import json\n import sys\n"
HUNK = "@@ -1,2 +1,2 @@\n" + BODY
NAMES = "--- a/x.py\n+++ b/x.py\n"


def refused(before: str | None, patch: str) -> tuple[str, str]:
    with pytest.raises(PatchError) as caught:
        plan_patch(before, patch)
    return caught.value.code, str(caught.value)


def set_in(lead: str, text: str) -> str:
    return "".join(f"{lead}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "patch",
    [
        f"```diff\n{BODY}```\n",
        f"```diff\n{NAMES}{BODY}```\n",
        f"~~~~patch\n{BODY}~~~~\n",
        f"```diff title=x.py\n{BODY}```\n",
        f"```diff:x.py\n{BODY}```\n",
        f"Here is the change:\n\n```diff\n{BODY}```\n",
        f"Here is the change:\n\n```diff\n@@\n{BODY}```\n",
        f"Here is the change:\n\n```\n@@ ... @@\n{BODY}```\nThat is all.\n",
        f"Here is the change:\n\n@@ def main():\n{BODY}",
        f"```diff\nx.py\n@@ -1,2 +1,2 @@\n{BODY}```\n",
        f"```python\nprint()\n```\n\n{HUNK}",
        f"x.py\n@@\n{BODY}",
        f"--- x.py\n@@\n{BODY}",
        f"+++ x.py\n\n@@\n{BODY}",
        f"---a/x.py\n+++b/x.py\n@@\n{BODY}",
        f"--- C:\\src\\x.py\n+++ C:\\src\\x.py\n{HUNK}",
        f"diff\n{NAMES}{HUNK}",
        f"\ufeff{HUNK}",
        f"\ufeff```diff\n{HUNK}```\n",
        set_in(" ", HUNK),
        set_in("  ", f"diff --git a/x.py b/x.py\n{NAMES}{HUNK}"),
        set_in("    ", HUNK),
        "\n" + set_in("\t", f"```diff\n{HUNK}```"),
        set_in("> ", HUNK),
        set_in(">", HUNK),
        set_in("> ", f"{NAMES}{HUNK}") + ">\n",
        f"```diff\n{HUNK}```\nand\n```python\nprint()\n```\n",
        f"```diff\n{HUNK}```\nIt was\n\n```\nimport os\n",
    ],
)
def test_a_diff_is_found_in_whatever_stands_around_it(patch: str) -> None:
    assert plan_patch(FILE, patch).kind == "patched"
    assert apply_patch(FILE, patch) == DONE
    assert apply_patch(FILE.replace("\n", "\r\n"), patch.replace("\n", "\r\n")) == DONE.replace("\n", "\r\n")


ENVELOPE = f"*** Begin Patch\n*** Update File: x.py\n@@\n{BODY}*** End Patch\n"


@pytest.mark.parametrize(
    ("patch", "what"),
    [
        (f"```\n{ENVELOPE}```\n", "an apply_patch envelope at line 2"),
        (f"Here you are:\n{ENVELOPE}", "an apply_patch envelope at line 2"),
        (f"*** Update File: x.py\n@@\n{BODY}", "an apply_patch envelope at line 1"),
        (f"*** Update File: x.py\n{HUNK}", "an apply_patch envelope at line 1"),
        ("```\n1c1\n< import os\n---\n> import json\n```\n", "a diff without context at line 2"),
        ("x.py:\n1d0\n< import os\n", "a diff without context at line 2"),
        ("x.py:\n0a1\n>\n", "a diff without context at line 2"),
        ("Change:\n*** x.py\n--- x.py\n***************\n*** 1,2 ****\n! import os\n", "a context diff at line 2"),
        ("Change:\n***************\n*** 1,2 ****\n! import os\n", "a context diff at line 3"),
        ("<<<< SEARCH\nimport os\n====\nimport json\n>>>> REPLACE\n", "a search-and-replace block at line 1"),
        ("------- SEARCH\nimport os\n=======\nimport json\n+++++++ REPLACE\n", "a search-and-replace block"),
        ("Fix:\n\n  <<<<<<< ORIGINAL\n  import os\n", "a search-and-replace block at line 3"),
        ("<<<<<<< HEAD\nimport os\n=======\nimport json\n>>>>>>> new\n", "a search-and-replace block"),
        ("<<<<<<<\nimport os\n=======\nimport json\n>>>>>>>\n", "a search-and-replace block"),
        ("<<<<< search\nimport os\n=======\nimport json\n>>>>>>> replace\n", "a search-and-replace block"),
        ("<search>\nimport os\n</search>\n<replace>\nimport json\n</replace>\n", "a search-and-replace block"),
        ("@@@ -1,2 -1,2 +1,2 @@@\n- import os\n+ import json\n  import sys\n", "a combined diff at line 1"),
        ("diff --cc x.py\n@@@ -1,2 -1,2 +1,2 @@@\n- import os\n", "a combined diff at line 1"),
        ("[-import os-]{+import json+}\nimport sys\n", "a word diff at line 1"),
        (f"Change:\n\n{set_in('    ', HUNK)}", "an indented or quoted diff at line 3"),
        (f"Change:\n{set_in('> ', NAMES + BODY)}", "an indented or quoted diff at line 2"),
        (f"Change:\n{set_in('  ', 'diff --git a/x b/x')}", "an indented or quoted diff at line 2"),
        (f" @@ -1,2 +1,2 @@\n{BODY}", "an indented or quoted diff at line 1"),
        ("\x1b[36m@@ -1 +1 @@\x1b[m\n\x1b[31m-import os\x1b[m\n", "an indented or quoted diff at line 1"),
        ("Change:\n-import os\n+import json\n", "a hunk without its @@ line at line 2"),
        ("```python\n-import os\n```\n", "a hunk without its @@ line at line 2"),
        ("Change:\n-import oss\n+import json\n", "a hunk without its @@ line at line 3"),
        ("Change:\n-import oss\n-import sis\n+import json\n", "a hunk without its @@ line at line 4"),
        ("Add:\n import sys\n+import json\n", "a hunk without its @@ line at line 3"),
        ("Add:\n+import json\n import sys\n", "a hunk without its @@ line at line 3"),
        ("import os\n+import json\nimport sys\n", "a hunk without its @@ line at line 2"),
        ("+import json\nimport os\nimport sys\n", "a hunk without its @@ line at line 2"),
        ("Add at the top:\n\n+import json\n+import yaml\n", "a hunk without its @@ line at line 3"),
        ("Change:\n\n    -import os\n    +import json\n", "a hunk without its @@ line at line 3"),
        ("> -import os\n> +import json\n", "a hunk without its @@ line at line 1"),
        (">  import sys\n> +import json\n", "a hunk without its @@ line at line 1"),
        ("      import sys\n     +import json\n", "a hunk without its @@ line at line 1"),
        ("- import os\n+ import json\n  import sys\n", "a hunk without its @@ line at line 2"),
        ("@ -1,2 +1,2 @\n-import os\n+import json\n", "a hunk without its @@ line at line 2"),
        (f"Change:\n-import os\n\n{HUNK}", "a hunk without its @@ line at line 2"),
        (f"```diff\n{HUNK}```\n<<<<<<< SEARCH\nimport sys\n=======\n", "a search-and-replace block at line 7"),
        (f"```diff\n{HUNK}```\nand\n-import sys\n", "a hunk without its @@ line at line 8"),
    ],
)
def test_an_edit_in_another_notation_is_never_content(patch: str, what: str) -> None:
    for text in (patch, patch.replace("\n", "\r\n"), patch.removesuffix("\n")):
        code, message = refused(FILE, text)
        assert code == "patch_malformed"
        assert what in message
        assert "react.write" in message


@pytest.mark.parametrize(
    "patch",
    [
        "*** Begin Patch\n*** Add File: x.py\n+import os\n*** End Patch\n",
        "x.py\n<<<<<<< SEARCH\n=======\nimport os\n>>>>>>> REPLACE\n",
        "+import os\n+\n+import sys\n",
        "The new file:\n\n+import os\n",
    ],
)
@pytest.mark.parametrize("before", [None, ""])
def test_another_notation_does_not_make_a_file(before: str | None, patch: str) -> None:
    assert refused(before, patch)[0] == "patch_malformed"


@pytest.mark.parametrize(
    "text",
    [
        "+-----+-----+\n| a   | b   |\n+-----+-----+\n",
        "Title\n=====\n\nPart\n-----\n",
        "- import os\n- import sys\n",
        "* - a\n  - import os\n",
        "Options:\n-v\n-x\n",
        "Names:\n+ import os\n",
        "one\ntwo\nthree\nfour:\n+import os\n",
        "Calls:\n+49 30 1234\n+1\n",
        "1d0\nis no diff\n",
        "*** a\nb\n",
        "<search>\n<input/>\n</search>\n",
        "a <<<< SEARCH\n<<<<\n<< SEARCH\n",
        "total = (a\n    -discount\n    +tax)\n",
        "  @@ decorated\n  text\n",
        "    --- a\n    b\n",
        "> quoted\n> - text\n",
        "This\n@@ is an operator\nof this language\n",
        "first\n@@\nsecond\n",
        "--- x.py\n\nis a name\n",
        "```diff\n\n```\ntext\n",
        "text\n```diff\nno marks\n```\n",
        "\ufefftext\n",
        "  all\n  indented\n",
    ],
)
def test_a_text_that_resembles_an_edit_is_content(text: str) -> None:
    before = "old\n" + FILE + "----\n"
    assert apply_patch(before, text) == text
    assert apply_patch("", text) == text


def test_lines_with_marks_that_the_file_has_are_content() -> None:
    before = "text\n-a\n+b\n+opt\nend\na\n"
    assert apply_patch(before, before + "more\n") == before + "more\n"


def test_a_list_made_of_a_file_s_lines_is_content() -> None:
    assert apply_patch("apples\npears\n", "- apples\n- pears\n") == "- apples\n- pears\n"


DOCUMENT = "# Diffs\n\n```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```\n"
DOCUMENTS = [
    DOCUMENT,
    "Diffs\n=====\n\n```diff\n-a\n+b\n```\n",
    "One looks so:\n\n```diff\n-a\n+b\n```\n\n## The other\n",
    "---\ntitle: x\n---\n\n@@ -1 +1 @@\n-a\n+b\n",
    "<h1>Diffs</h1>\n<pre>\n@@ -1 +1 @@\n-a\n+b\n</pre>\n",
    "Four\nlines\nstand\nabove:\n@@ -1 +1 @@\n-a\n+b\n",
    "# Merging\n\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n",
    "# Quoting\n\n> @@ -1 +1 @@\n> -a\n> +b\n",
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_that_shows_an_edit_is_written_where_nothing_is(document: str) -> None:
    assert plan_patch(None, document).kind == "created"
    assert apply_patch("", document) == document
    assert apply_patch(document, "# Next\n" + document) == "# Next\n" + document


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_that_shows_an_edit_does_not_replace_other_text_and_the_way_is_named(document: str) -> None:
    code, message = refused("old\ntext\n", document)
    assert code in ("patch_malformed", "patch_no_match")
    assert "react.write" in message


def test_a_file_of_empty_lines_is_not_empty() -> None:
    assert apply_patch("\n", "# The change\n\n@@ -1 +0,0 @@\n-\n") == ""
    assert refused("\n", DOCUMENT)[0] == "patch_no_match"


def test_a_document_whose_shown_diff_changes_is_taken_for_a_patch() -> None:
    """The header alone is no proof: many diffs have the same."""
    code, message = refused(DOCUMENT, DOCUMENT.replace("-a\n", "-c\n"))
    assert code == "patch_no_match"
    assert "react.write" in message
    patch = "Clearer:\n\n```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-# Diffs\n+# About diffs\n```\n"
    assert apply_patch(DOCUMENT, patch) == DOCUMENT.replace("# Diffs", "# About diffs")


def test_a_diff_below_a_short_preface_is_a_diff_also_where_nothing_is() -> None:
    created = "The new file:\n\n```diff\n--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+import os\n```\n"
    assert apply_patch("", created) == "import os\n"
    assert plan_patch(None, created).kind == "created"
    mail = "From 12 Mon\nFrom: a\nDate: b\nSubject: c\n\n---\n x.py | 1 +\n\n" + created.split("```diff\n")[1][:-4]
    assert apply_patch("", mail) == "import os\n"
    code, message = refused(None, f"The change:\n\n```diff\n{HUNK}```\n")
    assert code == "patch_no_match"
    assert "react.write" in message


def test_a_text_that_is_a_document_or_the_diff_that_makes_the_file_is_refused() -> None:
    diff = "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n"
    code, message = refused("", f"# The new file\n\n```diff\n{diff}```\n")
    assert code == "patch_ambiguous"
    assert "the diff at line 4" in message
    assert "react.write" in message


@pytest.mark.parametrize("head", ["--- /dev/null\n+++ b/x\n", "--- /dev/null\n+++ b/x\n@@\n", "```diff\n"])
def test_a_new_file_needs_no_numbers(head: str) -> None:
    tail = "```\n" if head.startswith("```") else ""
    assert apply_patch("", f"{head}+a\n+\n+b\n{tail}") == "a\n\nb\n"


def test_two_fenced_diffs_of_one_file_are_applied_both() -> None:
    before = FILE + "a\nb\nc\n"
    second = "@@ -4,2 +4,2 @@\n b\n-c\n+C\n"
    after = DONE + "a\nb\nC\n"
    assert apply_patch(before, f"```diff\n{HUNK}```\nand\n```diff\n{second}```\n") == after
    assert apply_patch(before, f"```diff\n{NAMES}{HUNK}```\n\n```diff\n{NAMES}{second}```\n") == after
    assert apply_patch(before, f"```\n{NAMES}{HUNK}```\n\n```\n{second}```\n") == after
    assert apply_patch(before, f"{NAMES}{HUNK}{NAMES}{second}") == after
    files = parse_patch(before, f"{NAMES}{HUNK}{NAMES}{second}")
    assert files is not None
    assert [hunk.number for hunk in files[0].hunks] == [1, 2]


def test_fenced_diffs_that_are_not_one_change_are_refused() -> None:
    two = f"```diff\n{HUNK}```\n```diff\n{HUNK}```\n"
    assert refused(FILE, two)[0] == "patch_overlap"
    other = f"```diff\n{NAMES}{HUNK}```\n```diff\n{NAMES.replace('x.py', 'y.py')}{HUNK}```\n"
    assert refused(FILE, other)[0] == "patch_several_files"
    loose = f"```diff\n{HUNK}```\n{HUNK}"
    assert "outside of a fence" in refused(FILE, loose)[1]
    cut = f"```diff\n{HUNK}```\n```diff\n@@ -2 +2 @@\n-import sys\n"
    assert "the fence opened at line 7 of the patch is not closed" in refused(FILE, cut)[1]
    many = "```diff\n" + "@@\n-import os\n+import json\n" * 600 + "```\n"
    assert refused(FILE, many * 2)[0] == "patch_too_large"
    created = "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"
    assert refused("", created + created)[0] == "patch_several_files"


def test_lines_with_marks_between_a_name_and_the_hunk_are_not_passed_over() -> None:
    code, message = refused(FILE, "```diff\nx.py\n-import sys\n@@ -1 +1 @@\n-import os\n+import json\n```\n")
    assert code == "patch_malformed"
    assert "line 2 of the patch is 'x.py'" in message


def test_a_removed_comment_is_not_taken_for_a_name() -> None:
    """In a hunk without its @@ line, `--- x` can be the name of a file or the removed line `-- x`."""
    code, message = refused("-- old\nx\n", "```diff\n--- old\n+-- new\n x\n```\n")
    assert code == "patch_malformed"
    assert "has no hunks" in message


@pytest.mark.parametrize(("lead", "empty"), [("    ", ""), ("    ", "  "), ("> ", ">"), ("> ", "")])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_lines_of_an_indented_diff_may_lack_the_indentation(lead: str, empty: str, end: str) -> None:
    patch = f"{lead}@@ -1,3 +1,3 @@\n{lead}-a\n{lead}+A\n{empty}\n{lead} b\n"
    assert apply_patch(f"a{end}{end}b{end}", patch.replace("\n", end)) == f"A{end}{end}b{end}"


@pytest.mark.parametrize("header", ["@@ -1,2 +1,2 @@\n", "@@\n"])
def test_marks_behind_one_space_too_many_are_refused(header: str) -> None:
    assert refused(FILE, header + set_in(" ", BODY))[0] == "patch_malformed"
    assert refused(FILE, NAMES + header + set_in(" ", BODY))[0] == "patch_malformed"


def test_a_byte_order_mark_stays_where_it_is() -> None:
    assert apply_patch("\ufeff" + FILE, HUNK) == "\ufeff" + DONE
    assert apply_patch("\ufeff" + FILE, HUNK.replace("-import os", "-\ufeffimport os")) == DONE
    assert apply_patch("\ufeffa\n", "@@ -1 +0,0 @@\n-a\n") == ""
    assert plan_patch("\ufeffa\n", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n").kind == "deleted"
