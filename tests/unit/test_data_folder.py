"""The files that the command line keeps beside the store forget an erased conversation."""

from pathlib import Path

from prompt_toolkit.history import FileHistory

from timeloom.core.ids import ConversationId
from timeloom.data_folder import EXPORTS_FOLDER, HISTORY_FILE, build_side_file_erasers, erase_from_history


def write_history(folder: Path, *items: str) -> None:
    history = FileHistory(str(folder / HISTORY_FILE))
    for item in items:
        history.store_string(item)


def load_history(folder: Path) -> list[str]:
    """Return the items as prompt_toolkit reads them, oldest first."""
    return list(FileHistory(str(folder / HISTORY_FILE)).load_history_strings())[::-1]


def test_the_history_of_prompt_toolkit_loses_the_erased_items_and_keeps_the_others(tmp_path: Path) -> None:
    write_history(tmp_path, "keep this", "my secret", "# not a comment\n+plus\n\nand more", "my secret and more")
    erase_from_history(tmp_path, ["my secret", "# not a comment +plus and more"])
    assert load_history(tmp_path) == ["keep this", "my secret and more"]


def test_an_item_is_found_although_its_spaces_and_line_ends_differ(tmp_path: Path) -> None:
    write_history(tmp_path, "my\n  secret ", "other")
    erase_from_history(tmp_path, ["my secret"])
    assert load_history(tmp_path) == ["other"]


def test_the_new_history_is_readable_by_its_owner_only_and_leaves_no_other_file(tmp_path: Path) -> None:
    write_history(tmp_path, "my secret")
    erase_from_history(tmp_path, ["my secret"])
    assert [path.name for path in tmp_path.iterdir()] == [HISTORY_FILE]
    assert (tmp_path / HISTORY_FILE).stat().st_mode & 0o777 == 0o600


def test_without_texts_or_history_nothing_is_written(tmp_path: Path) -> None:
    erase_from_history(tmp_path, ["my secret"])
    assert list(tmp_path.iterdir()) == []
    write_history(tmp_path, "my secret")
    before = (tmp_path / HISTORY_FILE).stat().st_ino
    erase_from_history(tmp_path, [])
    assert (tmp_path / HISTORY_FILE).stat().st_ino == before


def test_the_erasers_remove_typed_lines_and_the_exports_of_the_conversation(tmp_path: Path) -> None:
    write_history(tmp_path, "keep this", "my secret")
    for name in ("conv_kept", "conv_gone"):
        (tmp_path / EXPORTS_FOLDER / name).mkdir(parents=True)
        (tmp_path / EXPORTS_FOLDER / name / "timeline.json").write_text("{}")
    for _ in range(2):
        for erase_side_file in build_side_file_erasers(tmp_path):
            erase_side_file(ConversationId("conv_gone"), ("my secret",))
    assert load_history(tmp_path) == ["keep this"]
    assert [path.name for path in (tmp_path / EXPORTS_FOLDER).iterdir()] == ["conv_kept"]
