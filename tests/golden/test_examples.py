"""Blocks and prompts of turns that write, read, find and hide files."""

import pytest

from tests.golden.example_harness import ROWS, SEARCH, ExampleConversation, ExampleHarness, UploadedFile
from tests.harness.replies import answers, calls
from timeloom.core.sources import SourceRow
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.tools.define import tool

pytestmark = pytest.mark.anyio

REPORT = """# Three places to eat in Wuppertal

1. **Ölberg Kitchen**: seasonal, about 24 € a head [[S:1]]
2. **Schwebe**: fish, by the river, about 31 € a head [[S:1,2]]
3. **Nordstadt Diner**: burgers, about 14 € a head [[S:2]]

All three take reservations by telephone, are open on Sundays and lie within ten minutes of the central station. The
prices are for a main course and a drink, without service, as the guests of the last twelve months told them.
"""
DRAFT = "# Places\n\n1. Schwebe\n2. Diner\n"
DIFF = "@@ -3,2 +3,2 @@\n 1. Schwebe\n-2. Diner\n+2. Nordstadt Diner\n"
FIRST = "turn_1770603271112_000002"
"""The first turn of a conversation here; its first call is the next number."""

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 22
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"


WRITE = calls("react.write", path="files/draft.md", content=DRAFT)


async def draft_written(stage: ExampleHarness, *replies: str) -> ExampleConversation:
    """A conversation whose first turn wrote a draft."""
    talk = await stage.start_conversation(WRITE, answers(), *replies)
    await talk.run_turn("draft it")
    return talk


# --- react.write -----------------------------------------------------------------------------------------------


async def test_a_display_with_notes_and_sources(stage: ExampleHarness) -> None:
    write = calls("react.write", "Drafting summary", path="files/report.md", content=REPORT, kind="display")
    talk = await stage.start_conversation(SEARCH, answers(), write, answers())
    await talk.run_turn("which places are there?")
    await talk.run_turn("write them down")
    await talk.assert_matches("write_display")


async def test_a_file_among_the_outputs(stage: ExampleHarness) -> None:
    table = "place,price\nSchwebe,31\n"
    write = calls("react.write", path="outputs/prices.csv", content=table, kind="file", channel="timeline_text")
    talk = await stage.start_conversation(write, answers())
    await talk.run_turn("as a table")
    await talk.assert_matches("write_file")


async def test_an_internal_file(stage: ExampleHarness) -> None:
    write = calls("react.write", path="files/notes.md", content="Call them on Monday.\n", channel="internal")
    talk = await stage.start_conversation(write, answers())
    await talk.run_turn("remember it")
    await talk.assert_matches("write_internal")


async def test_a_scratchpad_note(stage: ExampleHarness) -> None:
    note = "[D] decided to use Wanderlog + TheFork as primary sources"
    write = calls("react.write", path="files/anchor.md", content=note, channel="internal", scratchpad=True)
    talk = await stage.start_conversation(write, answers())
    await talk.run_turn("remember it")
    await talk.assert_matches("write_scratchpad")


async def test_a_path_of_another_turn_is_written_in_the_current_one(stage: ExampleHarness) -> None:
    write = calls("react.write", path=f"{FIRST}/files/output.csv", content="place,price\nSchwebe,31\n")
    talk = await stage.start_conversation(answers(), write, answers())
    await talk.run_turn("hello")
    await talk.run_turn("write it")
    await talk.assert_matches("write_path_rewritten")


async def test_files_that_are_small_or_empty(stage: ExampleHarness) -> None:
    small = calls("react.write", path="files/small.md", content="1")
    talk = await stage.start_conversation(small, calls("react.write", path="files/empty.md", content=" "), answers())
    await talk.run_turn("write both")
    await talk.assert_matches("write_small_and_empty")


# --- react.patch -----------------------------------------------------------------------------------------------


async def test_a_patch_by_a_diff(stage: ExampleHarness) -> None:
    write = calls("react.write", path="files/draft.md", content=DRAFT, channel="internal")
    talk = await stage.start_conversation(write, calls("react.patch", path="files/draft.md", patch=DIFF), answers())
    await talk.run_turn("draft it, then name the diner")
    await talk.assert_matches("patch_diff", first_round=2)


async def test_a_patch_by_a_whole_text(stage: ExampleHarness) -> None:
    patch = calls("react.patch", path="files/draft.md", patch="# Places\n\nNone is open.\n")
    talk = await stage.start_conversation(WRITE, patch, answers())
    await talk.run_turn("draft it, then start anew")
    await talk.assert_matches("patch_whole", first_round=2)


async def test_a_patch_of_an_old_file_is_a_patch_of_its_copy(stage: ExampleHarness) -> None:
    talk = await draft_written(stage, calls("react.patch", path=f"{FIRST}/files/draft.md", patch=DIFF), answers())
    await talk.run_turn("name the diner")
    await talk.assert_matches("patch_old_file")


async def test_a_patch_that_does_not_fit(stage: ExampleHarness) -> None:
    patch = calls("react.patch", path="files/draft.md", patch="@@ -3 +3 @@\n-1. Ölberg\n+1. Schwebe\n")
    talk = await stage.start_conversation(WRITE, patch, answers())
    await talk.run_turn("draft it, then change it")
    await talk.assert_matches("patch_refused", first_round=2)


# --- react.read ------------------------------------------------------------------------------------------------


NOTES = "".join(f"{n}. {text}\n" for n, text in enumerate(("Ask for a table", "Bring cash", "Vegan menu", "Call"), 1))
UPLOAD = UploadedFile("notes.txt", "text/plain", NOTES.encode(), "a list of four things")
UPLOADED = f"fi:{FIRST}.user.attachments/notes.txt"


async def test_one_path_is_read(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(calls("react.read", paths=[UPLOADED]), answers())
    await talk.run_turn("what do my notes say?", UPLOAD)
    await talk.assert_matches("read_one")


async def test_several_paths_are_read_and_some_are_missing(stage: ExampleHarness) -> None:
    other = UploadedFile("more.txt", "text/plain", b"Nothing more.\n")
    paths = [UPLOADED, f"fi:{FIRST}.user.attachments/more.txt", f"fi:{FIRST}.files/none.md", "sk:menus", "files/../x"]
    talk = await stage.start_conversation(calls("react.read", paths=paths), answers())
    await talk.run_turn("what do my notes say?", UPLOAD, other)
    await talk.assert_matches("read_several")


async def test_ranges_of_lines_are_read(stage: ExampleHarness) -> None:
    items = [
        {"path": UPLOADED, "line_start": 3, "line_count": 1},
        {"path": UPLOADED, "line_start": 2, "symbol_start": 4},
    ]
    talk = await stage.start_conversation(calls("react.read", items=items), answers())
    await talk.run_turn("what do my notes say?", UPLOAD)
    await talk.assert_matches("read_lines")


async def test_statistics_alone_are_read(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(calls("react.read", paths=[UPLOADED], stats_only=True), answers())
    await talk.run_turn("how long are my notes?", UPLOAD)
    await talk.assert_matches("read_stats_only")


async def test_a_smaller_preview_is_read(stage: ExampleHarness) -> None:
    talk = await stage.start_conversation(calls("react.read", paths=[UPLOADED], max_text_symbols=40), answers())
    await talk.run_turn("how do my notes begin?", UPLOAD)
    await talk.assert_matches("read_max_text_symbols")


async def test_what_is_in_sight_is_not_read_again(stage: ExampleHarness) -> None:
    talk = await draft_written(stage, calls("react.read", paths=[f"fi:{FIRST}.files/draft.md"]), answers())
    await talk.run_turn("read it")
    await talk.assert_matches("read_in_sight")


async def test_what_was_hidden_is_read_back_into_sight(stage: ExampleHarness) -> None:
    path = f"fi:{FIRST}.files/draft.md"
    hide = calls("react.hide", path=path, replacement="the draft, two places")
    talk = await draft_written(stage, hide, calls("react.read", paths=[path]), answers())
    await talk.run_turn("put it away, then read it")
    await talk.assert_matches("read_hidden")


async def test_the_way_back_from_a_summary(stage: ExampleHarness) -> None:
    paths = [f"ws:{FIRST}.conv.working.summary", f"ar:{FIRST}.react.turn.index"]
    summary = f"Goal: notes read. Outcome: four things. Refs: {UPLOADED}"
    talk = await stage.start_conversation(
        answers("Four things.", summary=summary), calls("react.read", paths=paths), answers()
    )
    await talk.run_turn("what do my notes say?", UPLOAD)
    await talk.run_turn("what was that about?")
    await talk.assert_matches("read_recovery")


@tool("office.make", effect="idempotent")
async def make(context: ToolContext) -> Outcome:
    """Makes a report and a board."""
    report, board = f"fi:{context.turn_id}.files/report.pdf", f"fi:{context.turn_id}.files/board.pptx"
    folder = context.out_dir / context.turn_id / "files"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "report.pdf").write_bytes(b"%PDF-1.7 two pages")
    (folder / "board.pptx").write_bytes(b"PK three slides")
    row = SourceRow(sid=1, source_type="file", title="Report", mime="application/pdf", artifact_path=report)
    made = (
        Artifact(path=report, mime="application/pdf", kind="file", size_bytes=18, meta_only=True),
        Artifact(path=board, mime=PPTX, kind="file", size_bytes=15, data=b"PK three slides"),
    )
    return Outcome(sources=(row, ROWS[1]), artifacts=made)


async def test_sources_attachments_and_files_are_read_together(stage: ExampleHarness) -> None:
    stage.tools.append(make)
    image = f"fi:{FIRST}.user.attachments/image.png"
    hide = calls("react.hide", path=image, replacement="a photograph of the menu")
    paths = ["so:sources_pool[1,2,9]", UPLOADED, image, f"fi:{FIRST}.files/board.pptx"]
    talk = await stage.start_conversation(
        calls("office.make"), hide, answers(), calls("react.read", paths=paths), answers()
    )
    await talk.run_turn("make a report", UPLOAD, UploadedFile("image.png", "image/png", PNG, "a menu"))
    await talk.run_turn("show me everything")
    await talk.assert_matches("read_mixed")


# --- react.rg, pull, checkout ----------------------------------------------------------------------------------


async def test_files_and_regions_are_found(stage: ExampleHarness) -> None:
    search = calls("react.rg", pattern="diner", roots=[f"{FIRST}/files", "outputs/"], ignore_case=True)
    talk = await draft_written(stage, search, answers())
    await talk.run_turn("where is the diner?")
    await talk.assert_matches("rg_content")


async def test_files_are_found_by_name(stage: ExampleHarness) -> None:
    talk = await draft_written(stage, calls("react.rg", name=r"\.md$"), answers())
    await talk.run_turn("which texts are there?")
    await talk.assert_matches("rg_name")


async def test_files_are_pulled(stage: ExampleHarness) -> None:
    pull = calls("react.pull", paths=[UPLOADED, f"fi:{FIRST}.files/", f"fi:{FIRST}.outputs/none.csv"])
    talk = await stage.start_conversation(WRITE, answers(), pull, answers())
    await talk.run_turn("draft it", UPLOAD)
    await talk.run_turn("get the files")
    await talk.assert_matches("pull")


@pytest.mark.parametrize("mode", ["overlay", "replace"])
async def test_files_are_checked_out(stage: ExampleHarness, mode: str) -> None:
    own = calls("react.write", path="files/own.md", content="# A file of this turn\n")
    checkout = calls("react.checkout", paths=[f"fi:{FIRST}.files/"], mode=mode)
    talk = await draft_written(stage, own, checkout, answers())
    await talk.run_turn("take the draft up again")
    await talk.assert_matches(f"checkout_{mode}", first_round=2)


# --- react.hide ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool_id", "name", "words"),
    [("react.hide", "replacement", "hide"), ("react.memory_hide", "replacement_text", "hide_by_its_other_name")],
)
async def test_a_block_is_hidden(stage: ExampleHarness, tool_id: str, name: str, words: str) -> None:
    path = f"fi:{FIRST}.files/draft.md"
    talk = await stage.start_conversation(
        WRITE, calls(tool_id, path=path, **{name: "the draft, two places"}), answers()
    )
    await talk.run_turn("draft it, then put it away")
    await talk.assert_matches(words)


async def test_a_block_before_the_cache_point_is_not_hidden(stage: ExampleHarness) -> None:
    hide = calls("react.hide", path=f"fi:{FIRST}.files/draft.md", replacement="the draft")
    talk = await draft_written(stage, answers(), answers(), hide, answers())
    for word in ("fine", "really", "put it away"):
        await talk.run_turn(word)
    await talk.assert_matches("hide_before_cache")
