"""Every logical form is read, written back as it stands, and impossible to make with bad parts."""

from collections.abc import Callable

import msgspec
import pytest

from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.paths import (
    MAX_SELECTED,
    MAX_SID,
    ArtifactPath,
    AttachmentPath,
    CallTextPath,
    ChannelPath,
    CompletionPath,
    EntriesPath,
    EventAttachmentPath,
    EventPath,
    FilePath,
    KnowledgePath,
    LatestPlanPath,
    LogicalPath,
    PathError,
    PlanPath,
    RangeSummaryPath,
    RoundTextPath,
    SkillPath,
    SourcesPath,
    ToolPath,
    TurnIndexesPath,
    TurnIndexPath,
    UserPromptPath,
    WorkingSummaryPath,
    parse,
    select_sources,
)

TURN = TurnId("turn_1770603271112_2yz1lp")
CALL = CallId("18f62649fb3b")
PLAN = PlanId("plan:turn_1770603271112_2yz1lp:abcd")
MESSAGE = MessageId("msg-1")

FORMS: list[tuple[str, LogicalPath]] = [
    (f"ar:{TURN}.user.prompt", UserPromptPath(TURN)),
    (f"ar:{TURN}.assistant.completion", CompletionPath(TURN)),
    (f"ar:{TURN}.assistant.completion.2", CompletionPath(TURN, 2)),
    (f"ar:{TURN}.react.notes.{CALL}", CallTextPath(TURN, "notes", CALL)),
    (f"ar:{TURN}.react.note.{CALL}", CallTextPath(TURN, "note", CALL)),
    (f"ar:{TURN}.react.approval.{CALL}", CallTextPath(TURN, "approval", CALL)),
    (f"ar:{TURN}.react.thinking.0", RoundTextPath(TURN, "thinking", 0)),
    (f"ar:{TURN}.react.plan.ack.3", RoundTextPath(TURN, "plan.ack", 3)),
    (f"ar:{TURN}.react.model.12", RoundTextPath(TURN, "model", 12)),
    (f"ar:{TURN}.react.plan.{PLAN}", PlanPath(TURN, PLAN)),
    (f"ar:plan.latest:{PLAN}", LatestPlanPath(PLAN)),
    ("ar:plan.latest:plan_alpha", LatestPlanPath(PlanId("plan_alpha"))),
    (f"ar:{TURN}.react.turn.index", TurnIndexPath(TURN)),
    ("ar:turn_abc.artifacts.summary", ArtifactPath(TurnId("turn_abc"), "summary")),
    (f"ar:{TURN}.artifacts.report.v2.md", ArtifactPath(TURN, "report.v2.md")),
    (f"ar:{TURN}.external.followup.{MESSAGE}", EventPath(TURN, "followup", MESSAGE)),
    (f"tc:{TURN}.{CALL}.call", ToolPath(TURN, CALL, "call")),
    (f"tc:{TURN}.{CALL}.code", ToolPath(TURN, CALL, "code")),
    (f"tc:{TURN}.{CALL}.notice", ToolPath(TURN, CALL, "notice")),
    ("tc:turn_1.s1.result", ToolPath(TurnId("turn_1"), CallId("s1"), "result")),
    (f"fi:{TURN}.files/reports/summary.md", FilePath(TURN, "files", "reports/summary.md")),
    ("fi:turn_123.outputs/export/report.pdf", FilePath(TurnId("turn_123"), "outputs", "export/report.pdf")),
    (f"fi:{TURN}.user.attachments/menu.pdf", AttachmentPath(TURN, "menu.pdf")),
    (
        f"fi:{TURN}.external.form.attachments/{MESSAGE}/scan.png",
        EventAttachmentPath(TURN, "form", MESSAGE, "scan.png"),
    ),
    ("so:sources_pool[1,3-5]", SourcesPath(((1, 1), (3, 5)))),
    ("ar:log[12,15-20]", EntriesPath(((12, 12), (15, 20)))),
    ("ar:turns[3].react.turn.index", TurnIndexesPath(((3, 3),))),
    (f"ar:{TURN}.channel.chart", ChannelPath(TURN, "chart")),
    (f"ar:{TURN}.channel.to-do.2", ChannelPath(TURN, "to-do", 2)),
    (f"su:{TURN}.conv.range.summary", RangeSummaryPath(TURN)),
    (f"su:{TURN}.conv.range.summary.1", RangeSummaryPath(TURN, 1)),
    (f"ws:{TURN}.conv.working.summary", WorkingSummaryPath(TURN)),
    (f"ws:{TURN}.conv.working.summary.4", WorkingSummaryPath(TURN, 4)),
    ("sk:public.pdf-press", SkillPath("public.pdf-press")),
    ("ks:docs/architecture.md", KnowledgePath("docs/architecture.md")),
]


@pytest.mark.parametrize(("text", "path"), FORMS)
def test_a_form_is_read_and_written_back(text: str, path: LogicalPath) -> None:
    assert parse(text) == path
    assert str(path) == text


@pytest.mark.parametrize(("text", "path"), FORMS)
def test_a_form_keeps_its_kind_when_it_is_encoded(text: str, path: LogicalPath) -> None:
    assert msgspec.json.decode(msgspec.json.encode(path), type=LogicalPath) == path, text


@pytest.mark.parametrize(
    ("old", "canonical"),
    [
        ("tc:turn_123.tool_calls.abc123.in.json", "tc:turn_123.abc123.call"),
        ("tc:turn_123.tool_calls.abc123.out.json", "tc:turn_123.abc123.result"),
        ("tc:turn_123.tool_calls.result", "tc:turn_123.tool_calls.result"),
        ("so:sources_pool[ 7, 1 - 2 ,3 ]", "so:sources_pool[1-3,7]"),
        ("so:sources_pool[03]", "so:sources_pool[3]"),
    ],
)
def test_an_older_or_looser_spelling_becomes_canonical(old: str, canonical: str) -> None:
    assert str(parse(old)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "ar",
        "ar:",
        "AR:turn_1.user.prompt",
        " ar:turn_1.user.prompt",
        "xx:turn_1.user.prompt",
        "fi",
        "turn_1/files/a.txt",
        "ar:turn_1",
        "ar:turn_1.",
        "ar:turn_.user.prompt",
        "ar:123.user.prompt",
        "ar:turn_1.user.prompt.1",
        "ar:turn_1.user.prompt\n",
        "ar:turn_1/x.user.prompt",
        "ar:turn_1.assistant.completion.",
        "ar:turn_1.assistant.completion.0",
        "ar:turn_1.assistant.completion.01",
        "ar:turn_1.assistant.completion.-1",
        "ar:turn_1.assistant.completion.١",
        "ar:turn_1.assistant.completion.1.2",
        "ar:turn_1.assistant.completion.1234567890",
        "ar:turn_1.react.notes",
        "ar:turn_1.react.notes.",
        "ar:turn_1.react.notes.a.b",
        "ar:turn_1.react.thinking.one",
        "ar:turn_1.react.plan.ack.x",
        "ar:turn_1.react.plan.",
        "ar:turn_1.react.turn",
        "ar:turn_1.artifacts",
        "ar:turn_1.artifacts.",
        "ar:turn_1.external.followup",
        "ar:turn_1.external.follow/up.m1",
        "ar:turn_1.external..m1",
        "ar:plan.latest:",
        "ar:plan.latest:../x",
        "tc:turn_1.abc",
        "tc:turn_1.abc.in.json",
        "tc:turn_1.abc.output",
        "tc:turn_1.tool_calls.abc.in",
        "fi:turn_1.files",
        "fi:turn_1.files/",
        "fi:turn_1.files/a//b",
        "fi:turn_1.files/a/",
        "fi:turn_1.secrets/a",
        "fi:turn_1.user.attachments/",
        "fi:turn_1.external.form.attachments/only-a-message",
        "fi:turn_1.external.1form.attachments/m/n",
        "so:",
        "so:sources_pool",
        "so:sources_pool[]",
        "so:sources_pool[1",
        "so:sources_pool]1[",
        "so:sources_pool[1,]",
        "so:sources_pool[1--2]",
        "so:sources_pool[2-1]",
        "so:sources_pool[2-1,1-9]",
        "so:sources_pool[0]",
        "so:sources_pool[-1]",
        "so:sources_pool[１]",
        "so:pool[1]",
        "su:turn_1.conv.working.summary",
        "ws:turn_1.conv.range.summary",
        "su:turn_1.conv.range.summary.0",
        "sk:",
        "ks:",
    ],
)
def test_a_text_without_a_known_form_is_malformed(text: str) -> None:
    with pytest.raises(PathError) as refused:
        parse(text)
    assert refused.value.code == "path_malformed"


@pytest.mark.parametrize(
    "text",
    [
        "so:sources_pool[1000000]",
        "so:sources_pool[1-1000000]",
        f"so:sources_pool[{'9' * 4000}]",
        f"so:sources_pool[1-{MAX_SELECTED + 1}]",
        f"ar:log[1-{MAX_SELECTED + 1}]",
        "ar:log[1000000000]",
        "ar:turns[10000000].react.turn.index",
        f"so:sources_pool[1-{MAX_SELECTED},900]",
    ],
)
def test_a_selection_is_bounded(text: str) -> None:
    with pytest.raises(PathError) as refused:
        parse(text)
    assert refused.value.code == "range_too_large"


def test_a_selection_made_in_code_is_bounded_too() -> None:
    with pytest.raises(PathError) as refused:
        select_sources([1, MAX_SID + 1])
    assert refused.value.code == "range_too_large"


def test_a_refused_selection_never_repeats_an_endless_number() -> None:
    for first, last, code in [
        (10**5_000, 1, "range_too_large"),
        (1, 10**5_000, "range_too_large"),
        (-(10**5_000), 1, "path_malformed"),
        (1, -(10**5_000), "path_malformed"),
    ]:
        with pytest.raises(PathError) as refused:
            SourcesPath(((first, last),))
        assert refused.value.code == code
        assert len(str(refused.value)) < 200


def test_the_longest_selection_is_still_a_path() -> None:
    path = select_sources(range(MAX_SID, MAX_SID - 2 * MAX_SELECTED, -2))
    assert len(path.sids) == MAX_SELECTED
    assert parse(str(path)) == path


def test_a_selection_lists_its_ids_once_and_ascending() -> None:
    assert select_sources([5, 1, 4, 4, 3]).sids == (1, 3, 4, 5)


def test_overlapping_ranges_become_one() -> None:
    assert str(parse("so:sources_pool[1-9,2-3,8-12]")) == "so:sources_pool[1-12]"


@pytest.mark.parametrize("text", ["x" * 4097, "fi:turn_1.files/" + "a/" * 600 + "a", "ks:" + "é" * 128 + "/a"])
def test_a_long_text_is_refused_before_it_is_looked_at(text: str) -> None:
    with pytest.raises(PathError) as refused:
        parse(text)
    assert refused.value.code == "path_too_long"


BAD_TURN = TurnId("../turn_1")

BAD_PARTS: list[Callable[[], LogicalPath]] = [
    lambda: UserPromptPath(BAD_TURN),
    lambda: CompletionPath(BAD_TURN),
    lambda: CompletionPath(TURN, 0),
    lambda: CallTextPath(TURN, "notes", CallId("a.b")),
    lambda: RoundTextPath(TURN, "model", -1),
    lambda: RoundTextPath(TURN, "model", 10**9),
    lambda: PlanPath(TURN, PlanId("a b")),
    lambda: LatestPlanPath(PlanId("")),
    lambda: TurnIndexPath(BAD_TURN),
    lambda: ArtifactPath(TURN, "a/b"),
    lambda: EventPath(TURN, "a.b", MESSAGE),
    lambda: EventPath(TURN, "form", MessageId("a/b")),
    lambda: ToolPath(TURN, CallId("x" * 129), "call"),
    lambda: FilePath(TURN, "files", "../x"),
    lambda: AttachmentPath(TURN, "a/b"),
    lambda: EventAttachmentPath(TURN, "form", MessageId("nul"), "x"),
    lambda: EventAttachmentPath(TURN, "form", MESSAGE, ".."),
    lambda: ChannelPath(TURN, "a.b"),
    lambda: ChannelPath(TURN, "chart", 0),
    lambda: RangeSummaryPath(TURN, 0),
    lambda: WorkingSummaryPath(TURN, -5),
    lambda: SkillPath("/etc/passwd"),
    lambda: KnowledgePath("a/../b"),
    lambda: SourcesPath(()),
    lambda: SourcesPath(((1, 2), (3, 4))),
    lambda: SourcesPath(((5, 6), (1, 2))),
    lambda: select_sources([]),
    lambda: select_sources([0]),
    lambda: msgspec.structs.replace(FilePath(TURN, "files", "a"), rel="../a"),
    lambda: msgspec.convert({"form": "FilePath", "turn": TURN, "area": "files", "rel": "../a"}, FilePath),
]


@pytest.mark.parametrize("make", BAD_PARTS)
def test_a_path_with_a_bad_part_cannot_be_made(make: Callable[[], LogicalPath]) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


@pytest.mark.parametrize(
    ("form", "field"), [("CallTextPath", "what"), ("RoundTextPath", "what"), ("ToolPath", "part"), ("FilePath", "area")]
)
def test_a_closed_set_of_words_is_closed_at_run_time_too(form: str, field: str) -> None:
    (path,) = [path for _, path in FORMS if type(path).__name__ == form][:1]
    with pytest.raises(PathError, match="expected one of"):
        msgspec.structs.replace(path, **{field: "elsewhere"})


@pytest.mark.parametrize(
    "text",
    ["/home/someone/out/x", "fi:/home/someone/x.files/y", "C:\\Users\\someone", "fi:turn_1.files//home/someone"],
)
def test_a_message_does_not_repeat_a_host_path(text: str) -> None:
    with pytest.raises(PathError) as refused:
        parse(text)
    assert "someone" not in str(refused.value)
