"""Exports show the current log, and mark hidden, edited and superseded blocks."""

import json
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ConversationStarted,
    Digest,
    Hidden,
    RangeSummary,
    ResultContent,
    ResultDigest,
    SourcesAdded,
    ToolCall,
    Unknown,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.sources import SourceRow
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.views import Views, fold
from timeloom.testing.strategies import timelines
from timeloom.wire import timeline_json

TS = "2026-02-09T02:14:32.676425Z"
TURN = TurnId("turn_1")
FILE = "fi:turn_1.files/a.md"
CONVERSATION = ConversationId("conv_1")
Json = dict[str, object]


def exported(entries: Sequence[Entry]) -> Json:
    views = fold(entries)
    blocks = b",".join(timeline_json.timeline_block(entry, views) for entry in entries)
    head, foot = timeline_json.timeline_head(CONVERSATION, views), timeline_json.timeline_foot(views)
    return json.loads(head + blocks + foot)


def blocks_of(*blocks: AnyBlock) -> list[Json]:
    header = Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))
    drafts = [header, *(Draft(TURN, TS, block) for block in blocks)]
    return cast(list[Json], exported([to_entry(draft, seq) for seq, draft in enumerate(drafts, 1)])["blocks"])[1:]


@given(timelines())
def test_every_conversation_exports_all_its_blocks(entries: Sequence[Entry]) -> None:
    value = exported(entries)
    assert value["type"] == "conv.timeline.v1"
    assert value["tail"] == len(cast(list[Json], value["blocks"])) == len(entries)


def test_a_hidden_group_says_its_replacement_once() -> None:
    content = ResultContent(tool_call_id=CallId("c1"), artifact_path="tc:turn_1.c1.result", mime="text/plain", text="x")
    digest = ResultDigest(tool_call_id=CallId("c1"), digest=Digest(artifact_path="tc:turn_1.c1.result"))
    first, second, _ = blocks_of(digest, content, Hidden(target="tc:turn_1.c1.result", replacement="short"))
    assert cast(Json, first["meta"]).items() >= {"hidden": True, "replacement_text": "short"}.items()
    assert cast(Json, second["meta"])["hidden"] is True
    assert "replacement_text" not in cast(Json, second["meta"])


def test_a_block_without_meta_can_be_hidden() -> None:
    prompt, _ = blocks_of(UserPrompt(text="x"), Hidden(target="ar:turn_1.user.prompt", replacement="short"))
    assert prompt["meta"] == {"hidden": True, "replacement_text": "short"}


def test_metadata_of_a_later_version_says_edited() -> None:
    found = blocks_of(
        ResultDigest(tool_call_id=CallId("c1"), digest=Digest(artifact_path=FILE)),
        ResultDigest(tool_call_id=CallId("c2"), digest=Digest(artifact_path=FILE)),
    )
    assert ["edited" in cast(str, block["text"]) for block in found] == [False, True]


@pytest.mark.parametrize(
    ("path", "file", "cut"),
    [
        ("files/a.md", FILE, True),
        ("a.md", FILE, True),
        ("fi:t1/a.md", FILE, True),
        ("t1/files/a.md", FILE, True),
        ("t2/files/a.md", FILE, False),
        ("b.md", FILE, False),
        ("../a.md", FILE, False),
        (7, FILE, False),
    ],
)
def test_a_call_that_wrote_a_file_shows_only_the_start_of_its_content(path: object, file: str, cut: bool) -> None:
    params = json.dumps({"path": path, "content": "x" * 500})
    call = ToolCall(tool_id="react.write", tool_call_id=CallId("c1"), params=params)
    content = ResultContent(tool_call_id=CallId("c1"), artifact_path=file, mime="text/markdown", text="x" * 500)
    text = cast(str, blocks_of(call, content)[0]["text"])
    assert ("x" * 200 + f"... [see {FILE}]" in text) == cut
    assert ("x" * 500 in text) != cut


def test_only_the_newest_of_a_numbered_family_has_the_bare_path() -> None:
    found = blocks_of(
        Completion(text="a"),
        Completion(text="b", n=2),
        WorkingSummary(text="s"),
        RangeSummary(covered_turn_ids=(TURN,), text="r", first_seq=2, last_seq=2),
    )
    assert [block["path"] for block in found] == [
        "ar:turn_1.assistant.completion.1",
        "ar:turn_1.assistant.completion",
        "ws:turn_1.conv.working.summary",
        "su:turn_1.conv.range.summary",
    ]


def test_the_pool_is_compact_in_the_timeline_and_full_on_its_own() -> None:
    row = SourceRow(sid=1, source_type="web", title="Menu", url="https://a.example/", content="long body")
    views = fold([to_entry(Draft(NO_TURN, TS, SourcesAdded(rows=(row,))), 1)])
    compact = json.loads(b"[" + timeline_json.timeline_foot(views).removeprefix(b'],"sources_pool":')[1:-1])
    full = json.loads(
        timeline_json.sources_head(CONVERSATION) + timeline_json.sources_row(row) + timeline_json.sources_foot()
    )
    assert "content" not in compact[0]
    assert (full["type"], full["rows"][0]["content"]) == ("conv:sources_pool", "long body")


def test_a_foreign_block_that_only_its_own_text_can_say_is_exported_as_it_came() -> None:
    (block,) = blocks_of(Unknown(json='{"type": "x", "y": "\\ud800"}', foreign_type="x"))
    assert block == {"type": "x", "y": "\ud800"}


def test_an_empty_conversation_has_a_head() -> None:
    views = Views()
    assert (
        json.loads(timeline_json.timeline_head(CONVERSATION, views) + timeline_json.timeline_foot(views))["blocks"]
        == []
    )
