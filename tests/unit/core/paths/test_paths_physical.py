"""Files have one physical path each, and another turn's path is moved into the current turn."""

import pytest

from timeloom.core.ids import TurnId
from timeloom.core.paths import PathError, PhysicalPath, parse_long, rewrite_path, to_logical, to_physical

NOW = TurnId("turn_999")


@pytest.mark.parametrize(
    ("logical_text", "physical_text"),
    [
        ("fi:turn_1.files/reports/summary.md", "turn_1/files/reports/summary.md"),
        ("fi:turn_1.files/files/x", "turn_1/files/files/x"),
        ("fi:turn_1.outputs/export/report.pdf", "turn_1/outputs/export/report.pdf"),
        ("fi:turn_1.user.attachments/menu.pdf", "turn_1/attachments/menu.pdf"),
        (
            "fi:turn_1.external.followup.attachments/m-7/photo.png",
            "turn_1/external/followup/attachments/m-7/photo.png",
        ),
    ],
)
def test_a_file_has_one_physical_path(logical_text: str, physical_text: str) -> None:
    path = parse_long(logical_text)
    assert str(to_physical(path)) == physical_text
    assert to_logical(physical_text) == path


def test_a_physical_path_gives_its_names_in_order() -> None:
    assert PhysicalPath("turn_1/files/a/b.txt").names == ("turn_1", "files", "a", "b.txt")


@pytest.mark.parametrize("text", ["ar:turn_1.user.prompt", "tc:turn_1.c.result", "so:sources_pool[1]", "ks:a.md"])
def test_what_is_not_a_file_has_no_physical_path(text: str) -> None:
    with pytest.raises(PathError) as refused:
        to_physical(parse_long(text))
    assert refused.value.code == "path_not_a_file"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "path_malformed"),
        ("turn_1", "path_malformed"),
        ("turn_1/files", "path_malformed"),
        ("turn_1/files/", "path_malformed"),
        ("turn_1/secrets/x", "path_malformed"),
        ("turn_1/attachments/a/b", "path_malformed"),
        ("turn_1/external/form/attachments/m", "path_malformed"),
        ("turn_1/external/form/attachments/m/a/b", "path_malformed"),
        ("turn_1/external/a.b/attachments/m/a", "path_malformed"),
        ("one/files/x", "path_malformed"),
        ("fi:turn_1.files/x", "path_malformed"),
        ("/turn_1/files/x", "path_escapes_root"),
        ("turn_1/../turn_2/files/x", "path_escapes_root"),
        ("../turn_1/files/x", "path_escapes_root"),
        ("turn_1\\files\\x", "path_escapes_root"),
        ("turn_1/files/%2e%2e/x", "path_escapes_root"),
        ("turn_1/files/nul", "path_name_unsafe"),
        ("turn_1/files/" + "a/" * 600 + "a", "path_too_long"),
        ("turn_1/files/" + "a" * 5000, "path_too_long"),
    ],
)
def test_a_text_that_is_no_physical_path_is_refused(text: str, code: str) -> None:
    with pytest.raises(PathError) as refused:
        to_logical(text)
    assert refused.value.code == code
    with pytest.raises(PathError):
        PhysicalPath(text)


@pytest.mark.parametrize(
    ("given", "path", "changed"),
    [
        ("turn_123/files/output.csv", "fi:turn_999.files/output.csv", True),
        ("turn_123/outputs/a/output.csv", "fi:turn_999.outputs/a/output.csv", True),
        ("fi:turn_123.files/output.csv", "fi:turn_999.files/output.csv", True),
        ("fi:turn_123.outputs/output.csv", "fi:turn_999.outputs/output.csv", True),
        ("turn_999/files/output.csv", "fi:turn_999.files/output.csv", False),
        ("fi:turn_999.files/output.csv", "fi:turn_999.files/output.csv", False),
        ("output.csv", "fi:turn_999.files/output.csv", False),
        ("data/output.csv", "fi:turn_999.files/data/output.csv", False),
        ("files/output.csv", "fi:turn_999.files/output.csv", False),
        ("outputs/output.csv", "fi:turn_999.outputs/output.csv", False),
        ("files/turn_1/x", "fi:turn_999.files/turn_1/x", False),
        ("turn_signal.py", "fi:turn_999.files/turn_signal.py", False),
        ("~$report.docx", "fi:turn_999.files/~$report.docx", False),
        ("time: now.txt", "fi:turn_999.files/time: now.txt", False),
    ],
)
def test_a_file_of_any_turn_is_meant_in_the_current_turn(given: str, path: str, changed: bool) -> None:
    rewritten = rewrite_path(given, NOW)
    assert str(rewritten.path) == path
    assert rewritten.physical == to_physical(rewritten.path)
    assert rewritten.changed is changed
    assert rewritten.writable


def test_a_rewritten_path_also_tells_its_name_below_the_folder() -> None:
    assert rewrite_path("turn_123/files/a/output.csv", NOW).relative == "a/output.csv"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("turn_123/attachments/menu.pdf", "fi:turn_123.user.attachments/menu.pdf"),
        ("fi:turn_123.user.attachments/menu.pdf", "fi:turn_123.user.attachments/menu.pdf"),
        ("attachments/menu.pdf", "fi:turn_999.user.attachments/menu.pdf"),
        ("turn_123/external/form/attachments/m/menu.pdf", "fi:turn_123.external.form.attachments/m/menu.pdf"),
        ("external/form/attachments/m/menu.pdf", "fi:turn_999.external.form.attachments/m/menu.pdf"),
    ],
)
def test_what_the_user_sent_stays_where_it_is_and_is_not_written(given: str, path: str) -> None:
    rewritten = rewrite_path(given, NOW)
    assert str(rewritten.path) == path
    assert rewritten.relative == "menu.pdf"
    assert not rewritten.changed
    assert not rewritten.writable


@pytest.mark.parametrize("given", ["./a.md", "././a.md", "./files/a.md", f"./{NOW}/files/a.md"])
def test_a_path_that_begins_here_is_the_path_without_that(given: str) -> None:
    assert str(rewrite_path(given, NOW).path) == f"fi:{NOW}.files/a.md"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("", "path_malformed"),
        ("files", "path_malformed"),
        ("external/x", "path_malformed"),
        ("turn_123", "path_malformed"),
        ("turn_123/x", "path_malformed"),
        ("fi:turn_123", "path_malformed"),
        ("ar:turn_123.user.prompt", "path_not_a_file"),
        ("/etc/passwd", "path_escapes_root"),
        ("../x", "path_escapes_root"),
        (".", "path_escapes_root"),
        ("./", "path_malformed"),
        ("./../x", "path_escapes_root"),
        (".//etc/passwd", "path_escapes_root"),
        ("x/./y", "path_escapes_root"),
        ("~", "path_escapes_root"),
        ("~/x", "path_escapes_root"),
        ("~root/x", "path_escapes_root"),
        ("C:\\x", "path_escapes_root"),
        ("turn_123/files/../../x", "path_escapes_root"),
        ("fi:turn_123.files/../x", "path_escapes_root"),
        ("x" * 5000, "path_too_long"),
    ],
)
def test_what_is_no_file_of_a_turn_is_not_rewritten(given: str, code: str) -> None:
    with pytest.raises(PathError) as refused:
        rewrite_path(given, NOW)
    assert refused.value.code == code


def test_the_current_turn_must_be_a_turn() -> None:
    with pytest.raises(PathError, match="turn id"):
        rewrite_path("output.csv", TurnId("../turn_1"))
