"""Every tool takes the short aliases of turns and calls, and its result has the ids."""

import json
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from tests.harness.exec import make_exec_context
from tests.harness.react_tools import T1, T2, ToolHarness, decode_status, open_tool_harness
from timeloom.core.blocks import Hidden, Pinned, TurnStarted, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.policy.cache.points import CacheSettings
from timeloom.ports.tool import Outcome
from timeloom.tools.binding import bind_parameters
from timeloom.tools.exec.broker import ProgramBroker
from timeloom.tools.exec.contract import ContractFile, resolve_contract
from timeloom.tools.exec.inputs import find_named_paths
from timeloom.tools.react.checkout import checkout
from timeloom.tools.react.hide import HideTool
from timeloom.tools.react.patch import patch
from timeloom.tools.react.pin import PinTool
from timeloom.tools.react.pull import PullStatus, pull
from timeloom.tools.react.read import ReadItem, ReadStatus, ReadTool
from timeloom.tools.react.rg import RgStatus, rg
from timeloom.tools.react.write import write

pytestmark = pytest.mark.anyio
S = TypeVar("S", PullStatus, ReadStatus, RgStatus)
REPORT, TABLE = "fi:turn_1.files/src/report.md", "fi:turn_1.outputs/table.csv"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    """A first turn with a message, two calls and an attachment, and a second turn that has begun."""
    stage = await open_tool_harness(tmp_path / "out")
    await stage.append(TurnStarted(n=1), UserPrompt(text="please report"))
    await stage.record_file(REPORT, "# Report\nall is well\n")
    await stage.record_file(TABLE, "a,b\n", mime="text/csv")
    await stage.attach("menu.txt", "text/plain", b"soup")
    await stage.append(TurnStarted(n=2), turn=T2)
    return stage


def decoded(outcome: Outcome, status: type[S]) -> S:
    return msgspec.json.decode(outcome.status or "", type=status)


@pytest.mark.parametrize(
    ("alias", "path", "text"),
    [
        ("ar:t1.user.prompt", "ar:turn_1.user.prompt", "please report"),
        ("fi:t1/src/report.md", REPORT, "# Report\nall is well\n"),
        ("t1/files/src/report.md", REPORT, "# Report\nall is well\n"),
        ("fi:t1.outputs/table.csv", TABLE, "a,b\n"),
        ("fi:t1.user.attachments/menu.txt", "fi:turn_1.user.attachments/menu.txt", "soup"),
        ("t1/attachments/menu.txt", "fi:turn_1.user.attachments/menu.txt", "soup"),
    ],
)
async def test_read_takes_aliases_and_answers_with_ids(alias: str, path: str, text: str, stage: ToolHarness) -> None:
    await stage.append(Hidden(target=path, replacement="gone"), turn=T2)
    outcome = await ReadTool().read(stage.context(T2), (alias,))
    assert decode_status(outcome)["paths"] == [path]
    assert [(artifact.path, artifact.text) for artifact in outcome.artifacts] == [(path, text)]


async def test_read_finds_the_parts_of_a_call_by_its_number(stage: ToolHarness) -> None:
    first, second = stage.views.calls.by_number[T1]
    outcome = await ReadTool().read(stage.context(T2), ("tc:t1.1.call",), (ReadItem(path="tc:t1.2.call"),))
    assert decode_status(outcome)["paths"] == [f"tc:turn_1.{first}.call", f"tc:turn_1.{second}.call"]


async def test_an_alias_of_nothing_is_missing_with_the_reason(stage: ToolHarness) -> None:
    outcome = await ReadTool().read(stage.context(T2), ("tc:t1.3.result", "fi:t3/a.md"))
    assert list(decoded(outcome, ReadStatus).reasons.values()) == [
        "path_not_found: t1.3 names no call: turn 1 has 2 calls",
        "path_not_found: t3 names no turn: the conversation has 2 turns",
    ]


async def test_pull_and_checkout_take_files_and_folders(stage: ToolHarness) -> None:
    pulled = await pull(stage.context(T2), ("fi:t1/src/", "t1/outputs/table.csv", "fi:t1.outputs/"))
    assert [file.path for file in decoded(pulled, PullStatus).pulled] == [REPORT, TABLE]
    copied = decode_status(await checkout(stage.context(T2), ("fi:t1/src/report.md",)))
    assert copied["copied"] == [
        {
            "path": "fi:turn_2.files/src/report.md",
            "physical_path": "turn_2/files/src/report.md",
            "copied_from": REPORT,
            "size_bytes": 21,
        }
    ]


@pytest.mark.parametrize("path", ["fi:t1/src/report.md", "t1/files/src/report.md"])
async def test_patch_copies_the_file_of_the_named_turn(path: str, stage: ToolHarness) -> None:
    outcome = await patch(stage.context(T2), path, "@@ -1 +1 @@\n-# Report\n+# The report\n")
    summary = decode_status(outcome)
    assert (summary["path"], summary["copied_from"]) == ("fi:turn_2.files/src/report.md", REPORT)
    assert [notice.code for notice in outcome.notices] == ["protocol_violation.path_rewritten"]


@pytest.mark.parametrize("path", ["fi:t2/a.md", "t2/files/a.md", "fi:t2.files/a.md"])
async def test_write_takes_the_alias_of_the_current_turn_without_a_notice(path: str, stage: ToolHarness) -> None:
    outcome = await write(stage.context(T2), path, content="a long enough text")
    assert ([one.path for one in outcome.artifacts], outcome.notices) == (["fi:turn_2.files/a.md"], ())


async def test_a_bare_name_like_an_alias_is_a_folder_of_files(stage: ToolHarness) -> None:
    outcome = await write(stage.context(T2), "t1/a.md", content="a long enough text")
    assert [one.path for one in outcome.artifacts] == ["fi:turn_2.files/t1/a.md"]


@pytest.mark.parametrize("path", ["fi:t1.user.attachments/menu.txt", "t1/attachments/menu.txt"])
async def test_an_attachment_is_read_only_under_its_alias_too(path: str, stage: ToolHarness) -> None:
    with pytest.raises(CodedError) as refused:
        await write(stage.context(T2), path, content="x")
    assert refused.value.code == "path_read_only"


@pytest.mark.parametrize("root", ["t1", "t1/", "t1/files", "t1/files/src/", "fi:t1/", "fi:t1/src/report.md"])
async def test_rg_takes_roots_with_aliases(root: str, stage: ToolHarness) -> None:
    await pull(stage.context(T2), (REPORT,))
    outcome = await rg(stage.context(T2), "well", roots=(root,))
    assert [file.logical_path for file in decoded(outcome, RgStatus).files] == [REPORT]


async def test_rg_names_a_root_of_no_turn(stage: ToolHarness) -> None:
    status = decode_status(await rg(stage.context(T2), "well", roots=("t9", "fi:t9/src/")))
    assert status["notes"] == [
        "'t9': path_not_found: t9 names no turn: the conversation has 2 turns",
        "'fi:t9'…: path_not_found: t9 names no turn: the conversation has 2 turns",
    ]


async def test_hide_and_pin_record_the_ids(stage: ToolHarness) -> None:
    pinned = await PinTool().pin(stage.context(T2), "ar:t1.user.prompt")
    assert [block.target for block in pinned.blocks if isinstance(block, Pinned)] == ["ar:turn_1.user.prompt"]
    hidden = await HideTool(CacheSettings(min_rounds=99)).hide(stage.context(T2), "fi:t1/src/report.md", "the report")
    assert hidden.blocks == (Hidden(target=REPORT, replacement="the report"),)


async def test_references_and_write_paths_are_bound_to_ids(stage: ToolHarness) -> None:
    params = {"text": "ref:fi:t1/src/report.md", "message": "ref:ar:t1.user.prompt", "path": "fi:t2.outputs/x.md"}
    bound = await bind_parameters(json.dumps(params), ["path"], stage.context(T2))
    expected = {"text": "# Report\nall is well\n", "message": "please report", "path": "turn_2/outputs/x.md"}
    assert (json.loads(bound.params), bound.notices) == (expected, ())


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"x": "ref:fi:t9/a.md"}, "protocol_violation.param_ref_not_visible"),
        ({"path": "fi:t9/a.md"}, "path_not_found"),
        ({"path": "t9/files/a.md"}, "path_not_found"),
    ],
)
async def test_a_bound_alias_of_nothing_is_refused(params: object, code: str, stage: ToolHarness) -> None:
    with pytest.raises(CodedError, match="t9 names no turn: the conversation has 2 turns") as refused:
        await bind_parameters(json.dumps(params), ["path"], stage.context(T2))
    assert refused.value.code == code


async def test_a_contract_takes_aliases_of_the_current_turn(stage: ToolHarness) -> None:
    files = (ContractFile(filepath="t2/outputs/a.csv"), ContractFile(filename="fi:t2/b.csv"))
    contract = resolve_contract(files, stage.context(T2), 10)
    assert [str(file.path) for file in contract.files] == ["fi:turn_2.outputs/a.csv", "fi:turn_2.files/b.csv"]
    assert contract.notices == ()


async def test_a_program_fetches_by_alias(stage: ToolHarness) -> None:
    broker = ProgramBroker(await make_exec_context(stage, "print(1)", turn=T2), 10_000)
    answers = [
        json.loads(await broker.fetch(path)) for path in ("ar:t1.user.prompt", "fi:t1/src/report.md", "tc:t8.1.call")
    ]
    assert [answer["ret"] for answer in answers] == ["please report", "# Report\nall is well\n", None]
    assert answers[2]["error"]["message"] == "t8 names no turn: the conversation has 2 turns"


def test_names_with_aliases_in_code_are_files() -> None:
    code = """
x = open(OUT_DIR / "t1/files/c d.md"); y = f"{OUT_DIR}/t12/outputs/{name}.csv"
fetch_ctx("fi:t1/a.md"); "fi:t1.outputs"; "t1/files"
t1.append(2); left1/files/no.md; t1/report.md; t0/files/no.md; at1/files/no.md
"""
    assert list(find_named_paths(code)) == [
        ("t1/files/c d.md", "t1/files/c"),
        ("t12/outputs/",),
        ("fi:t1/a.md",),
        ("fi:t1.outputs/",),
        ("t1/files/",),
    ]
