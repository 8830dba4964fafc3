"""react.read shows the content of paths, names missing ones, and repeats no visible content."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tests.harness.react_tools import T2, TS, ToolHarness, open_tool_harness
from timeloom.core.blocks import (
    Attachment,
    Completion,
    Digest,
    Followup,
    Hidden,
    ModelCalled,
    Note,
    Notice,
    PlanRecorded,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Shown,
    SourcesAdded,
    Thinking,
    ToolCall,
    ToolError,
    TurnStarted,
    Unknown,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.paths import KnowledgePath, SkillPath
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.sources import SourceRow
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.tool import Outcome, ToolContext
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.react.read import MAX_REQUESTS, ReadInfo, ReadItem, ReadLimits, ReadStatus, ReadTool
from timeloom.tools.react.resolve import ReadableContent
from timeloom.tools.react.turn_indexes import load_index
from timeloom.tools.react.write import write

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
LONG = "".join(f"row {n}\n" for n in range(1, 5001))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    return await open_tool_harness(tmp_path / "out")


async def read(stage: ToolHarness, *paths: str, tool: ReadTool | None = None, **more: object) -> Outcome:
    """A read in the second turn, recorded as the runtime would."""
    context = stage.context(T2)
    outcome = await (tool or ReadTool()).read(context, paths, **more)  # pyright: ignore[reportArgumentType]
    await stage.record("react.read", context, outcome)
    return outcome


def status(outcome: Outcome) -> ReadStatus:
    return msgspec.json.decode(outcome.status or "", type=ReadStatus)


def info(outcome: Outcome) -> ReadInfo:
    (item,) = status(outcome).items
    return item


def texts(outcome: Outcome) -> dict[str, object]:
    return {artifact.path: artifact.text for artifact in outcome.artifacts}


# --- what each namespace leads to --------------------------------------------------------------------------------


async def test_messages_and_events_are_read_by_their_paths(stage: ToolHarness) -> None:
    await stage.append(
        TurnStarted(n=1),
        UserPrompt(text="where?"),
        Followup(message_id=MessageId("m1"), text="and when?"),
        Completion(text="here"),
        Completion(text="there", n=2),
        Thinking(round=1, text="hm"),
        WorkingSummary(text="goal: where"),
        Hidden(target="ar:turn_1.user.prompt", replacement="the question"),
    )
    await stage.append(Hidden(target="ar:turn_1.external.followup.m1", replacement="x"))
    outcome = await read(stage, "ar:turn_1.user.prompt", "ar:turn_1.external.followup.m1")
    assert texts(outcome) == {"ar:turn_1.user.prompt": "where?", "ar:turn_1.external.followup.m1": "and when?"}
    for bare in ("ar:turn_1.assistant.completion", "ws:turn_1.conv.working.summary", "ar:turn_1.react.thinking.1"):
        found = status(await read(stage, bare))
        assert len(found.exists_in_visible_context) == 1


async def test_a_bare_path_means_the_newest_and_is_shown_under_its_number(stage: ToolHarness) -> None:
    await stage.append(Completion(text="here"), Completion(text="there", n=2))
    await stage.append(Hidden(target="ar:turn_1.assistant.completion.2", replacement="x"))
    outcome = await read(stage, "ar:turn_1.assistant.completion")
    assert texts(outcome) == {"ar:turn_1.assistant.completion.2": "there"}


async def test_the_parts_of_a_call_are_read_also_by_their_older_spelling(stage: ToolHarness) -> None:
    call = CallId("c1")
    digest = Digest(artifact_path="tc:turn_1.c1.result", mime="application/json")
    await stage.append(
        ToolCall(tool_id="web.search", tool_call_id=call, params='{"q":1}'),
        Notice(code="tool_call_error", text="slow", tool_call_id=call),
        Notice(code="tool_call_error", text="slower", tool_call_id=call),
        ResultDigest(tool_call_id=call, digest=digest),
        ResultContent(
            tool_call_id=call,
            artifact_path=digest.artifact_path,
            mime="application/json",
            text='[{"sid":1}]',
            shown=Shown("preview", 9, "| [..]"),
        ),
        Note(tool_call_id=call, text="[D] x"),
    )
    outcome = await read(stage, "tc:turn_1.tool_calls.c1.in.json", "tc:turn_1.tool_calls.c1.out.json")
    said = texts(outcome)
    assert msgspec.json.decode(cast(str, said["tc:turn_1.c1.call"])) == {
        "tool_id": "web.search",
        "tool_call_id": "c1",
        "params": {"q": 1},
        "ts": TS,
    }
    assert said["tc:turn_1.c1.result"] == '[{"sid":1}]'
    assert texts(await read(stage, "tc:turn_1.c1.notice")) == {"tc:turn_1.c1.notice": "slow\n\nslower"}


async def test_a_result_that_is_only_metadata_is_read_as_that(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_1.files/a.md", "text")
    outcome = await read(stage, "tc:turn_1.call1.result")
    assert '"artifact_path":"fi:turn_1.files/a.md"' in str(texts(outcome)["tc:turn_1.call1.result"])


async def test_plans_the_turn_index_and_named_artifacts_are_read(stage: ToolHarness) -> None:
    plan = PlanSnapshot(plan_id=PlanId("p1"), steps=("one",), statuses=("pending",))
    await stage.append(TurnStarted(n=1), UserPrompt(text="plan it"), PlanRecorded(snapshot=plan))
    await stage.record_file("fi:turn_1.outputs/table.csv", "a,b\n", mime="text/csv")
    outcome = await read(
        stage,
        "ar:plan.latest:p1",
        "ar:turn_1.react.turn.index",
        "ar:turn_1.artifacts.table.csv",
        "ar:turn_9.artifacts.x",
    )
    said = texts(outcome)
    assert '"plan_id":"p1"' in str(said["ar:turn_1.react.plan.p1"])
    assert "message ar:turn_1.user.prompt: plan it" in str(said["ar:turn_1.react.turn.index"])
    assert status(outcome).exists_in_visible_context == ["fi:turn_1.outputs/table.csv"]
    assert status(outcome).missing == ["ar:turn_9.artifacts.x"]
    assert status(await read(stage, "ar:turn_9.react.turn.index")).missing == ["ar:turn_9.react.turn.index"]


async def test_indexes_are_read_by_the_numbers_of_turns_and_entries_by_their_places(stage: ToolHarness) -> None:
    await stage.append(TurnStarted(n=1), UserPrompt(text="one"))
    await stage.append(TurnStarted(n=2), UserPrompt(text="two"), turn=T2)
    outcome = await read(stage, "ar:turns[2,7].react.turn.index", "ar:log[3-4,90]")
    said = texts(outcome)
    assert "message ar:turn_2.user.prompt: two" in str(said["ar:turn_2.react.turn.index"])
    assert "every entry as it was recorded: ar:log[4-5]" in str(said["ar:turn_2.react.turn.index"])
    assert said["ar:log[3]"] == "one"
    assert '"type":"turn.header"' in str(said["ar:log[4]"])
    assert status(outcome).missing == ["ar:turns[7].react.turn.index", "ar:log[90]"]


async def test_a_file_that_was_edited_is_read_as_it_was(stage: ToolHarness) -> None:
    await stage.append(TurnStarted(n=1))
    for text in ("first", "second"):
        await stage.record_file("fi:turn_1.files/a.md", text)
    index = texts(await read(stage, "ar:turn_1.react.turn.index"))["ar:turn_1.react.turn.index"]
    place = re.search(r"ar:log\[\d+\](?=.*: an older version of fi:turn_1.files/a.md)", str(index))
    assert place
    assert texts(await read(stage, place[0])) == {place[0]: "first"}


async def test_a_block_without_text_of_its_own_is_read_as_json(stage: ToolHarness) -> None:
    foreign = Unknown(
        json='{"type":"react.dream"}', foreign_type="react.dream", foreign_path="ar:turn_1.artifacts.dream"
    )
    await stage.append(ModelCalled(round=1, model="script:x", request_sha256="ab" * 32), foreign)
    said = texts(await read(stage, "ar:turn_1.react.model.1", "ar:turn_1.artifacts.dream"))
    assert '"model":"script:x"' in str(said["ar:turn_1.react.model.1"])
    assert said["ar:turn_1.artifacts.dream"] == '{"type":"react.dream"}'


async def test_sources_are_read_one_by_one_and_files_among_them_as_files(stage: ToolHarness) -> None:
    image = await stage.attach("map.png", "image/png", PNG)
    file_row = {"source_type": "attachment", "artifact_path": image, "physical_path": "turn_1/attachments/map.png"}
    rows = (
        SourceRow(sid=1, title="Fares", url="https://f.example/", text="74", content="The page. " * 3000),
        SourceRow(sid=2, mime="image/png", **file_row),  # pyright: ignore[reportArgumentType]
        SourceRow(sid=3, source_type="file", title="gone", text="was here", artifact_path="fi:turn_1.files/gone.md"),
        SourceRow(sid=4, source_type="manual", title="odd", text="said", artifact_path="fi:../x"),
    )
    await stage.append(SourcesAdded(rows=rows))
    outcome = await read(stage, "so:sources_pool[1-5]")
    assert [artifact.path for artifact in outcome.artifacts] == [f"so:sources_pool[{sid}]" for sid in (1, 3, 4)]
    first = outcome.artifacts[0]
    assert str(first.text).startswith("[1] Fares\nurl: https://f.example/\n\nThe page.")
    assert first.shown
    assert first.shown.how == "preview"
    assert status(outcome).missing == ["so:sources_pool[5]"]
    assert status(outcome).exists_in_visible_context == [image]
    assert str(outcome.artifacts[2].text) == "[4] odd\n\nsaid"


class Books:
    """A shelf with one skill."""

    async def fetch(self, path: SkillPath | KnowledgePath, context: ToolContext) -> ReadableContent | None:
        if str(path) != "sk:public.pdf-press":
            return None
        return ReadableContent(path=str(path), mime="text/markdown", text="# How to print", size_bytes=14)


async def test_skills_and_knowledge_come_from_the_shelf(stage: ToolHarness) -> None:
    outcome = await read(stage, "sk:public.pdf-press", "sk:none", "ks:docs/a.md", tool=ReadTool(source=Books()))
    assert texts(outcome) == {"sk:public.pdf-press": "# How to print"}
    assert (status(outcome).missing_skills, status(outcome).missing) == (["sk:none"], ["ks:docs/a.md"])
    assert status(await read(stage, "sk:public.pdf-press")).missing_skills == ["sk:public.pdf-press"]


# --- files -------------------------------------------------------------------------------------------------------


async def test_a_file_of_another_turn_is_brought_into_the_workspace_read_only(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "data")
    try:
        stage = ToolHarness(store, tmp_path / "out")
        await stage.append()
        path = await stage.record_file("fi:turn_1.files/a/long.md", LONG)
        outcome = await read(stage, path)
        place = stage.out_dir / "turn_1/files/a/long.md"
        assert (place.read_text(), place.stat().st_mode & 0o222) == (LONG, 0)
        assert info(outcome).physical_path == "turn_1/files/a/long.md"
    finally:
        await store.close()


async def test_the_newest_version_counts_and_a_failed_one_does_not(stage: ToolHarness) -> None:
    path = "fi:turn_1.files/a.md"
    await stage.record_file(path, "old")
    await stage.record_file(path, "new", T2)
    failed = Digest(artifact_path=path, error=ToolError(code="tool_result_error", message="empty"))
    await stage.append(ResultDigest(tool_call_id=CallId("c9"), digest=failed), turn=T2)
    await stage.append(Hidden(target=path, replacement="x"), turn=T2)
    assert texts(await read(stage, path)) == {path: "new"}


async def test_of_the_current_turn_the_workspace_has_the_newest_state(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_2.files/a.md", "as recorded", T2)
    await read(stage, path)
    assert (stage.out_dir / "turn_2/files/a.md").read_text() == "as recorded"
    (stage.out_dir / "turn_2/files/a.md").write_text("as a program left it")
    assert texts(await read(stage, "files/a.md")) == {path: "as a program left it"}
    (stage.out_dir / "turn_1/files").mkdir(parents=True)
    (stage.out_dir / "turn_1/files/only.txt").write_text("on disk alone")
    assert texts(await read(stage, "turn_1/files/only.txt")) == {"fi:turn_1.files/only.txt": "on disk alone"}


async def test_a_copy_that_was_changed_is_replaced_by_what_the_timeline_says(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_1.files/a.md", "true")
    (stage.out_dir / "turn_1/files").mkdir(parents=True)
    (stage.out_dir / "turn_1/files/a.md").write_text("false")
    await stage.append(Hidden(target=path, replacement="x"))
    assert texts(await read(stage, path)) == {path: "true"}
    assert (stage.out_dir / "turn_1/files/a.md").read_text() == "true"


async def test_a_file_of_which_only_the_beginning_was_kept_is_shown_as_that(stage: ToolHarness) -> None:
    path, call = "fi:turn_1.outputs/big.txt", CallId("c1")
    digest = Digest(artifact_path=path, mime="text/plain", size_bytes=99)
    content = ResultContent(
        tool_call_id=call, artifact_path=path, mime="text/plain", text="begin", shown=Shown("whole")
    )
    await stage.append(ResultDigest(tool_call_id=call, digest=digest), content, Hidden(target=path, replacement="x"))
    outcome = await read(stage, path)
    assert texts(outcome) == {path: "begin"}
    assert info(outcome).left_out == "only the beginning of this file was kept"
    (stage.out_dir / "turn_1/outputs").mkdir(parents=True)
    (stage.out_dir / "turn_1/outputs/big.txt").write_text("begin and end")
    assert texts(await read(stage, path)) == {path: "begin and end"}


async def test_an_image_is_attached_whole_and_other_binaries_are_only_described(stage: ToolHarness) -> None:
    image = await stage.attach("map.png", "image/png", PNG)
    sheet = await stage.attach("data.xlsx", "application/vnd.ms-excel", b"PK\x03\x04\0")
    await stage.append(Hidden(target=image, replacement="x"))
    outcome = await read(stage, image, sheet)
    assert [(artifact.path, artifact.data, artifact.text) for artifact in outcome.artifacts] == [
        (image, PNG, None),
        (sheet, None, None),
    ]
    assert "physical_path" in status(outcome).items[1].left_out


async def test_an_image_above_its_bound_is_only_described(stage: ToolHarness) -> None:
    image = await stage.attach("map.png", "image/png", PNG)
    pdf = await stage.attach("menu.pdf", "application/pdf", b"%PDF-1.7\0")
    await stage.append(Hidden(target=image, replacement="x"))
    outcome = await read(stage, image, pdf, tool=ReadTool(limits=ReadLimits(image_bytes=5, pdf_bytes=5)))
    assert [artifact.data for artifact in outcome.artifacts] == [None, None]
    assert {item.left_out.partition(" of ")[0] for item in status(outcome).items} == {
        "larger than the 5 bytes that are shown"
    }


async def test_an_image_that_is_in_sight_is_not_repeated(stage: ToolHarness) -> None:
    image = await stage.attach("map.png", "image/png", PNG)
    outcome = await read(stage, image)
    assert (outcome.artifacts, status(outcome).exists_in_visible_context) == ((), [image])


# --- what is in sight --------------------------------------------------------------------------------------------


async def test_what_was_read_is_in_sight_until_it_is_hidden(stage: ToolHarness) -> None:
    path = await stage.attach("notes.txt", "text/plain", b"from the user")
    assert texts(await read(stage, path)) == {path: "from the user"}
    assert status(await read(stage, path)).exists_in_visible_context == [path]
    await stage.append(Hidden(target=path, replacement="x"))
    assert texts(await read(stage, path)) == {path: "from the user"}


async def test_a_result_with_bytes_is_read_by_the_path_of_its_call(stage: ToolHarness) -> None:
    path, call = "tc:turn_1.c1.result", CallId("c1")
    await stage.append(ResultContent(tool_call_id=call, artifact_path=path, mime="image/png", data=PNG))
    assert status(await read(stage, path)).exists_in_visible_context == [path]
    await stage.append(Hidden(target=path, replacement="x"))
    assert (await read(stage, path)).artifacts[0].data == PNG


async def test_the_text_of_an_attachment_is_in_sight_where_that_was_decided(stage: ToolHarness) -> None:
    path = "fi:turn_1.user.attachments/a.txt"
    await stage.append(Attachment(artifact_path=path, mime="text/plain", text="all of it", shown=Shown("whole", 3)))
    assert status(await read(stage, path)).exists_in_visible_context == [path]


async def test_a_preview_or_stub_is_not_the_thing_itself(stage: ToolHarness) -> None:
    call = CallId("c1")
    await stage.append(ResultStatus(tool_call_id=call, text="the whole report", shown=Shown("stub", 4, "report")))
    assert texts(await read(stage, "tc:turn_1.c1.result")) == {"tc:turn_1.c1.result": "the whole report"}
    path = "fi:turn_1.user.attachments/a.txt"
    await stage.append(Attachment(artifact_path=path, mime="text/plain", text="attached text"))
    assert texts(await read(stage, path)) == {path: "attached text"}


async def test_the_same_path_twice_in_one_call_is_shown_once(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_1.files/a.md", "text")
    await stage.append(Hidden(target=path, replacement="x"))
    outcome = await read(stage, path, "turn_1/files/a.md")
    assert len(outcome.artifacts) == 1
    assert status(outcome).exists_in_visible_context == [path]


async def test_a_range_that_is_in_sight_is_not_repeated_and_another_one_is_shown(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_1.files/long.md", LONG)
    item = ReadItem(path=path, line_start=10, line_count=2)
    first, again = await read(stage, items=(item,)), await read(stage, items=(item,))
    assert first.artifacts[0].text == "row 10\nrow 11\n"
    assert first.artifacts[0].shown
    assert first.artifacts[0].shown.text == "[READ] [10-11]/5000\n10| row 10\n11| row 11\n"
    assert status(again).exists_in_visible_context == [path]
    other = await read(stage, items=(ReadItem(path=path, line_start=12, line_count=1),))
    assert other.artifacts[0].text == "row 12\n"
    whole = await read(stage, path, tool=ReadTool(limits=ReadLimits(text_symbols=10**6, tokens=10**6)))
    assert status(whole).exists_in_visible_context == [path]


# --- bounds ------------------------------------------------------------------------------------------------------


async def test_a_long_text_is_shown_in_parts_that_say_how_to_go_on(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_1.files/long.md", LONG)
    outcome = await read(stage, path)
    item = info(outcome)
    assert item.lines.startswith("[1-")
    assert item.lines.endswith("]/5000")
    assert item.next_item
    assert outcome.artifacts[0].shown
    assert outcome.artifacts[0].shown.tokens <= ReadLimits().tokens
    assert status(outcome).total_tokens == item.tokens
    following = await read(stage, items=(item.next_item,))
    assert str(outcome.artifacts[0].text) + str(following.artifacts[0].text) in LONG


async def test_a_line_too_long_for_one_read_is_read_in_parts(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_1.files/one.json", "x" * 3000, mime="application/json")
    tool = ReadTool(limits=ReadLimits(text_symbols=2000))
    first = info(await read(stage, path, tool=tool))
    assert (first.lines, first.cut_line) == ("[]/1", 1)
    assert first.next_item
    rest = await read(stage, items=(first.next_item,), tool=tool)
    assert first.next_item.symbol_start + len(str(rest.artifacts[0].text).rstrip()) == 3001


async def test_a_caller_may_ask_for_less(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_1.files/long.md", LONG)
    outcome = await read(stage, path, max_text_symbols=30)
    assert len(str(outcome.artifacts[0].text)) < 30
    assert info(await read(stage, path, max_text_symbols=10**9)).line_count == 5000


async def test_stats_come_without_content(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_1.files/long.md", LONG)
    image = await stage.attach("map.png", "image/png", PNG)
    sheet = await stage.attach("data.xlsx", "application/vnd.ms-excel", b"PK\0")
    outcome = await read(stage, path, image, sheet, stats_only=True)
    item = status(outcome).items[0]
    assert (outcome.artifacts, item.line_count, item.text_symbols, item.size_bytes) == ((), 5000, len(LONG), len(LONG))
    assert item.tokens == estimate_tokens(LONG)


async def test_a_text_above_its_bound_in_bytes_is_only_described(stage: ToolHarness) -> None:
    path = await stage.record_file("fi:turn_1.files/long.md", LONG)
    outcome = await read(stage, path, tool=ReadTool(limits=ReadLimits(text_bytes=100)))
    assert outcome.artifacts == ()
    assert info(outcome).left_out == "larger than the 100 bytes of text that are read"


async def test_one_call_shows_only_so_much(stage: ToolHarness) -> None:
    paths = [await stage.record_file(f"fi:turn_1.files/{n}.md", f"{n} " * 200) for n in range(3)]
    for path in paths:
        await stage.append(Hidden(target=path, replacement="x"))
    outcome = await read(stage, *paths, tool=ReadTool(limits=ReadLimits(call_tokens=500)))
    shown, left = status(outcome).items[0], status(outcome).items[-1]
    assert len(outcome.artifacts) == 500 // (shown.tokens or 1) < 3
    assert "call of its own" in left.left_out


# --- relative names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.md", "./a.md", "files/a.md", "./files/a.md"])
async def test_a_relative_name_is_the_newest_file_of_that_name(stage: ToolHarness, name: str) -> None:
    for path in ("fi:turn_0.files/a.md", "fi:turn_1.files/a.md", "fi:turn_0.files/a.md", "fi:turn_0.outputs/a.md"):
        await stage.record_file(path, "# A")
    found = status(await read(stage, name))
    assert (found.paths, found.items[0].text_symbols) == (["fi:turn_0.files/a.md"], 3)


@pytest.mark.parametrize("name", ["a.md", "./a.md", "docs/a.md", "outputs/a.md"])
async def test_a_relative_name_is_first_what_a_write_of_it_has_written(stage: ToolHarness, name: str) -> None:
    context = stage.context(T2)
    outcome = await write(context, name, content="# This turn's own")
    await stage.record("react.write", context, outcome)
    await stage.record_file("fi:turn_1.files/a.md", "# Older turn, newer version", turn=T2)
    assert status(await read(stage, name)).paths == [outcome.artifacts[0].path]


async def test_a_relative_name_passes_over_a_file_that_was_never_written(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_1.files/a.md", "# Written")
    context = stage.context(T2)
    await stage.record("react.write", context, await write(context, "a.md", content=""))
    assert status(await read(stage, "a.md")).paths == ["fi:turn_1.files/a.md"]


async def test_a_relative_name_of_an_attachment_is_the_newest_one(stage: ToolHarness) -> None:
    path = await stage.attach("list.csv", "text/csv", b"a,b\n")
    assert status(await read(stage, "attachments/list.csv")).paths == [path]


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "code", "name"),
    [
        ("/etc/passwd", "path_malformed", "''…"),
        ("fi:turn_1.files/../x", "path_escapes_root", "'fi:turn_1.files'…"),
        ("../../secret", "path_escapes_root", "'..'…"),
        ("turn_1.user.prompt", "path_malformed", "'turn_1.user.prompt'"),
        ("report.md", "path_not_found", "fi:turn_2.files/report.md"),
        (".//etc/passwd", "path_malformed", "'.'…"),
        ("fi:turn_1.files/none.md", "path_not_found", "fi:turn_1.files/none.md"),
        ("ar:turn_9.user.prompt", "path_not_found", "ar:turn_9.user.prompt"),
    ],
)
async def test_a_path_that_leads_nowhere_is_missing_for_a_reason(
    stage: ToolHarness, path: str, code: str, name: str
) -> None:
    found = status(await read(stage, path))
    assert found.missing == [name]
    assert found.reasons[name].startswith(f"{code}: ")


async def test_a_link_in_the_workspace_is_not_followed(stage: ToolHarness, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (stage.out_dir / "turn_2/files").mkdir(parents=True)
    (stage.out_dir / "turn_2/files/a.md").symlink_to(tmp_path / "secret")
    outcome = await read(stage, "fi:turn_2.files/a.md")
    assert status(outcome).reasons["fi:turn_2.files/a.md"].startswith("path_symlink: ")
    assert "secret" not in str(outcome)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"paths": ("ar:turn_1.user.prompt",) * (MAX_REQUESTS + 1)},
        {"items": (ReadItem(path="x", line_start=0),)},
        {"items": (ReadItem(path="x", line_count=0),)},
        {"paths": ("x",), "max_text_symbols": 0},
    ],
)
async def test_what_makes_no_sense_is_refused(stage: ToolHarness, wrong: Mapping[str, object]) -> None:
    with pytest.raises(CodedError) as refused:
        await ReadTool().read(stage.context(), **wrong)  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "tool_params_invalid"


async def test_an_index_has_rows_for_the_line_ranges_of_long_texts(stage: ToolHarness) -> None:
    lines = [f"row {n} has {n * 37} of salt" for n in range(3_000)]
    lines[1_500] = "The pier closes at noon."
    await stage.append(TurnStarted(n=1), UserPrompt(text="salt " * 30 + "and a pier"))
    await stage.record_file("fi:turn_1.files/a.md", "\n".join(lines))
    index = str(texts(await read(stage, "ar:turn_1.react.turn.index"))["ar:turn_1.react.turn.index"])
    assert "message ar:turn_1.user.prompt: salt salt" in index
    assert "and a pier" in index
    first, last = re.findall(r"fi:turn_1\.files/a\.md \S+ lines (\d+)-(\d+) of 3000: The pier closes at noon\.", index)[
        0
    ]
    item = ReadItem(path="fi:turn_1.files/a.md", line_start=int(first), line_count=int(last) - int(first) + 1)
    outcome = await ReadTool().read(stage.context(), items=(item,))
    assert "The pier closes at noon.\n" in str(outcome.artifacts[0].text)


async def test_long_indexes_of_several_turns_are_merged_into_the_rows_with_the_rarest_words(stage: ToolHarness) -> None:
    for n in range(1, 61):
        turn = TurnId(f"turn_{n}")
        notes = [Followup(message_id=MessageId(f"m{at}"), text="salt and bread " * 9) for at in range(5)]
        word = UserPrompt(text="salt " * 99 + ("the pier-house " if n == 17 else "") + "bread " * 99)
        await stage.append(TurnStarted(n=n), word, *notes, turn=turn)
    said = texts(await read(stage, "ar:turns[1-60,99].react.turn.index"))
    ((path, text),) = said.items()
    assert path == "ar:turns[1-60].react.turn.index"
    assert len(str(text)) < 17_000
    assert re.search(r"^ar:turn_17\.user\.prompt: .*the pier-house", str(text), re.MULTILINE)


async def test_an_index_outlines_no_more_text_than_it_may(stage: ToolHarness) -> None:
    await stage.append(TurnStarted(n=1), UserPrompt(text="salt " * 30 + "pier"))
    await stage.record_file("fi:turn_1.files/a.md", LONG)
    loaded = await load_index(TurnId("turn_1"), stage, 100)
    assert list(loaded.texts) == ["ar:turn_1.user.prompt"]
