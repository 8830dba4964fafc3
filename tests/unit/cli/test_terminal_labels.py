"""Labels in the terminal for figures, calls, plans, attachments and questions."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.harness.react_tools import T1, ToolHarness, open_tool_harness
from timeloom.agent.text_file import MAX_ATTACHMENT_BYTES, AttachError
from timeloom.cli.chat.display.block_summary import summarize_block
from timeloom.cli.chat.display.format import format_cost, format_duration, format_size, format_spend
from timeloom.cli.chat.display.labels import (
    abbreviate_params,
    describe_end,
    format_params,
    format_params_on_one_line,
    format_plan,
    format_plan_changes,
    summarize_results,
)
from timeloom.cli.chat.terminal.approvals import ApprovalDecision, ApprovalQuestion, parse_decision
from timeloom.cli.chat.terminal.attach import read_attachment
from timeloom.cli.chat.terminal.slash_commands import complete_command
from timeloom.core.blocks import (
    ApprovalDecided,
    Attachment,
    AttachmentMeta,
    Digest,
    ResultDigest,
    ResultStatus,
    ToolError,
    TurnEnded,
)
from timeloom.core.ids import CallId, PlanId
from timeloom.core.paths import AttachmentPath, PathError
from timeloom.core.payload import BlobRef
from timeloom.core.plans.snapshot import PlanSnapshot, StepStatus
from timeloom.core.policy.next_step import INTERRUPTED_POLICY
from timeloom.core.view.progress import MODEL_TOOL_ID
from timeloom.core.view.spend import Spend
from timeloom.runtime.turn.attachments import to_attachment_blocks
from timeloom.testing.samples import SAMPLE_BLOCKS
from timeloom.tools.react.toolset import react_tools

CALL = CallId("0123456789ab")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_figures_are_short_and_say_their_unit() -> None:
    assert [format_duration(one) for one in (0.04, 9.94, 12.3, 125)] == ["0.0 s", "9.9 s", "12 s", "2 min 5 s"]
    assert [format_size(one) for one in (1, 999, 3400, 1_200_000)] == ["1 byte", "999 bytes", "3.4 kB", "1.2 MB"]


@pytest.mark.parametrize(
    ("nano", "unknown", "said"),
    [
        (0, 0, "$0.00"),
        (0, 2, "price unknown"),
        (1_234_000_000, 0, "$1.23"),
        (123_400_000, 0, "$0.12"),
        (1_234_000, 0, "$0.0012"),
        (1, 0, "$0.000000001"),
        (12_340_000, 1, "at least $0.012"),
    ],
)
def test_money_is_said_as_exactly_as_it_is_known(nano: int, unknown: int, said: str) -> None:
    assert format_cost(Spend(cost_nano_usd=nano, unknown_costs=unknown)) == said


def test_the_cost_line_has_tokens_and_the_share_from_the_cache() -> None:
    spend = Spend(rounds=2, tool_calls=1, input_tokens=100, cache_read_tokens=900, output_tokens=1234)
    assert format_spend(spend) == "2 rounds · 1 call · 1,000 tokens in (90% from cache) · 1,234 out · $0.00"
    assert format_spend(Spend()) == "0 tokens in · 0 out · $0.00"


def test_parameters_are_shown_in_short() -> None:
    assert (
        abbreviate_params('{"path":"files/a.md","content":"two words","n":3}')
        == 'path=files/a.md content="two words" n=3'
    )
    assert abbreviate_params('{"a":{"b":[1]},"c":""}') == 'a={"b":[1]} c=""'
    assert abbreviate_params("not json") == "not json"
    assert abbreviate_params("[1]") == "[1]"
    assert abbreviate_params("[" * 5_000) == "[" * 199 + "…"
    assert abbreviate_params(BlobRef("0" * 64, 10)) == "(long)"


def test_parameters_are_shown_in_full() -> None:
    assert format_params('{"a":1}') == '{\n  "a": 1\n}'
    assert format_params("not json") == "not json"


def test_escapes_in_parameters_hide_nothing_and_what_cannot_be_seen_shows_as_one() -> None:
    assert format_params(r'{"p":"\u002e\u002e/\u00e4"}') == '{\n  "p": "../ä"\n}'
    assert format_params('{"p":"a\u2028  b\u202ec"}') == '{\n  "p": "a\\u2028  b\\u202ec"\n}'
    assert format_params_on_one_line(r'{"p": "\u002e\u002e"}', 120) == '{"p":".."}'
    assert (format_params_on_one_line("no\x1bt", 3), format_params_on_one_line(BlobRef("0" * 64, 10), 9)) == (
        r"no\u001b",
        "",
    )


def test_results_are_said_in_a_few_words() -> None:
    file = ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path="fi:turn_1.files/a.md", size_bytes=12))
    result = ResultDigest(tool_call_id=CALL, digest=Digest(artifact_path=f"tc:turn_1.{CALL}.result", size_bytes=5))
    failed = ResultDigest(
        tool_call_id=CALL, digest=Digest(artifact_path="fi:turn_1.files/b.md", error=ToolError("x", "y"))
    )
    status = ResultStatus(tool_call_id=CALL, text="Two found.\nMore.")
    assert summarize_results([file, result, failed, status, status]) == "files/a.md (12 bytes), 5 bytes, Two found."


def plan(*statuses: StepStatus) -> PlanSnapshot:
    steps = tuple(f"step {n}" for n in range(len(statuses)))
    return PlanSnapshot(plan_id=PlanId("plan:turn_1:20a5"), steps=steps, statuses=statuses)


def test_a_long_plan_is_shown_around_the_step_that_is_under_way() -> None:
    done: list[StepStatus] = ["done"] * 10
    pending: list[StepStatus] = ["pending"] * 10
    long = plan(*done, *pending)
    assert format_plan(long, 4) == ["✓ step 9", "□ step 10", "□ step 11", "  (10 of 20 done)"]
    assert format_plan(long, 1) == ["□ step 10 (11/20)"]
    assert format_plan(plan("done", "failed"), 1) == ["✗ step 1 (2/2)"]
    assert format_plan(plan("done", "in_progress")) == ["✓ step 0", "… step 1"]


def test_of_a_plan_that_goes_on_only_what_has_moved_is_said() -> None:
    steps = tuple(f"step {n}" for n in range(40))
    first: tuple[StepStatus, ...] = ("pending",) * 40
    before = PlanSnapshot(plan_id=PlanId("plan:turn_1:20a5"), steps=steps, statuses=first)
    after = replace(before, statuses=(*first[:39], "done"))
    assert format_plan_changes(before, after) == ["✓ step 39"]
    assert format_plan_changes(None, after)[-1] == "  (1 of 40 done)"


def test_an_end_is_said_in_plain_words() -> None:
    assert describe_end(TurnEnded(reason="stopped")) == "stopped"
    assert describe_end(TurnEnded(reason="provider_error", text="no key")) == "the model did not answer: no key"


def test_a_decision_is_read_from_its_first_word() -> None:
    assert parse_decision("y") == ApprovalDecision(approved=True)
    assert parse_decision(" Yes, this once ") == ApprovalDecision(approved=True, text="this once")
    assert parse_decision("n too expensive") == ApprovalDecision(approved=False, text="too expensive")
    assert parse_decision("maybe") is None
    assert parse_decision("") is None


def test_a_question_shows_all_that_would_be_run() -> None:
    question = ApprovalQuestion(call_id=CALL, tool_id="exec", reason="why", params='{"a":1}', code="print(1)\nprint(2)")
    assert question.headline == "May it call exec?"
    assert replace(question, policy=INTERRUPTED_POLICY).headline == "Call exec once more?"
    assert replace(question, tool_id=MODEL_TOOL_ID).headline == "May the model be asked?"
    assert question.detail_lines() == ["{", '  "a": 1', "}", "", "the program:", "print(1)", "print(2)"]


def test_a_command_is_completed_where_there_is_no_doubt() -> None:
    assert complete_command("/so") == "/sources "
    assert complete_command("/t") == "/t"
    assert complete_command("/") == "/"
    assert complete_command("//so") == "//so"
    assert complete_command("so") == "so"


def test_a_path_after_attach_is_completed_as_far_as_it_is_unambiguous(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("plan-a.md", "plan-b.md", ".hidden"):
        (tmp_path / name).write_text("x")
    assert complete_command(f"/attach {tmp_path}/no") == f"/attach {tmp_path}/notes/"
    assert complete_command(f"/attach {tmp_path}/p") == f"/attach {tmp_path}/plan-"
    assert complete_command(f"/attach '{tmp_path}/.h") == f"/attach '{tmp_path}/.hidden"
    assert complete_command(f"/attach {tmp_path}/x") == f"/attach {tmp_path}/x"
    assert complete_command(f"/attach {tmp_path}/none/x") == f"/attach {tmp_path}/none/x"


def test_every_block_has_a_gist_of_one_line() -> None:
    for block in SAMPLE_BLOCKS:
        assert "\n" not in summarize_block(block)
        assert len(summarize_block(block)) <= 160


class TestAttaching:
    def test_text_files_are_read_and_attached_under_names_of_their_own(self, tmp_path: Path) -> None:
        (tmp_path / "a b.md").write_text("# Hello\n")
        file = read_attachment(f"'{tmp_path}/a b.md'")
        assert (file.name, file.mime, file.text) == ("a b.md", "text/markdown", "# Hello\n")
        blocks = to_attachment_blocks([file] * 3, lambda name: AttachmentPath(T1, name))
        names = [one.artifact_path.rpartition("/")[2] for one in blocks if isinstance(one, Attachment)]
        assert names == ["a b.md", "a b-2.md", "a b-3.md"]

    def test_a_file_without_a_known_ending_is_plain_text_if_it_is_text(self, tmp_path: Path) -> None:
        (tmp_path / "LICENSE").write_text("Free.")
        assert read_attachment(str(tmp_path / "LICENSE")).mime == "text/plain"

    def test_what_cannot_be_attached_is_refused_in_plain_words(self, tmp_path: Path) -> None:
        (tmp_path / "photo.png").write_bytes(b"\x89PNG\0")
        (tmp_path / "latin.txt").write_bytes("Größe".encode("latin-1"))
        (tmp_path / "odd").write_bytes(b"\x7fELF\0")
        with (tmp_path / "huge.txt").open("wb") as file:
            file.truncate(MAX_ATTACHMENT_BYTES + 1)
        for name, said in (
            ("photo.png", "is not text"),
            ("odd", "is not text"),
            ("latin.txt", "is not UTF-8 text"),
            ("huge.txt", "at most 10.0 MB"),
            ("missing.txt", "cannot be read: No such file"),
            (".", "is not a regular file"),
        ):
            with pytest.raises(AttachError, match=said):
                read_attachment(str(tmp_path / name))

    def test_a_name_that_hides_something_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a\u202egnp.txt").write_text("x")
        with pytest.raises(PathError):
            read_attachment(str(tmp_path / "a\u202egnp.txt"))

    @pytest.mark.anyio
    async def test_what_was_attached_can_be_read_by_the_agent(self, tmp_path: Path) -> None:
        (tmp_path / "fares.csv").write_text("ferry,price\nFrisia,74\n")
        stage = await open_tool_harness(tmp_path / "out")
        blocks = to_attachment_blocks(
            [read_attachment(str(tmp_path / "fares.csv"))], lambda name: AttachmentPath(T1, name)
        )
        meta, content = blocks
        assert isinstance(meta, AttachmentMeta)
        assert isinstance(content, Attachment)
        assert meta.summary == "2 lines, beginning: ferry,price Frisia,74"
        await stage.append(*blocks)
        assert "Frisia,74" in await read(stage, meta.digest.artifact_path)


async def read(stage: ToolHarness, path: str) -> str:
    tool = next(one for one in react_tools() if one.spec.tool_id == "react.read")
    outcome = await tool.call(f'{{"paths":["{path}"]}}', stage.context())
    return "".join(str(one.text) for one in outcome.artifacts)


def test_a_decision_without_words_ends_without_a_colon() -> None:
    decided = ApprovalDecided(tool_call_id=CALL, approved=True, by="bob", text="")
    assert summarize_block(decided) == "allowed by bob"
    assert summarize_block(replace(decided, approved=False, text="too much")) == "refused by bob: too much"
