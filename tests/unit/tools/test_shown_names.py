"""In a turn of edition 2, the texts that tools record name files by alias, as the prompt does."""

from pathlib import Path

import pytest

from tests.harness.exec import PlainSandbox, run_exec
from tests.harness.react_tools import T1, T2, ToolHarness, open_tool_harness
from timeloom.core.blocks import TurnStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import TurnId
from timeloom.ports.tool import Outcome
from timeloom.tools.artifacts import load_local_file
from timeloom.tools.exec.contract import ContractFile, resolve_contract
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.react.checkout import checkout
from timeloom.tools.react.patch import patch
from timeloom.tools.react.select_files import select_files
from timeloom.tools.react.write import write
from timeloom.tools.shown_names import shown_path, shown_place

pytestmark = pytest.mark.anyio
DIFF = "@@ -1 +1 @@\n-old\n+new\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def open_stage(tmp_path: Path, edition: int, turn: TurnId = T2) -> ToolHarness:
    """Return a conversation whose first turn has a file and whose second turn has that edition."""
    stage = await open_tool_harness(tmp_path / "out")
    first = T1 if turn == T2 else T2
    await stage.append(TurnStarted(n=1), turn=first)
    await stage.record_file(f"fi:{first}.files/a.md", "old\n", turn=first)
    await stage.append(TurnStarted(n=2, edition=edition), turn=turn)
    return stage


def stub_of(outcome: Outcome) -> str:
    shown = outcome.artifacts[0].shown
    return shown.text if shown else ""


@pytest.mark.parametrize(("edition", "path"), [(1, "fi:turn_2.files/a.md"), (2, "fi:t2/a.md")])
async def test_the_stub_of_a_patch_names_the_file_as_the_prompt_does(tmp_path: Path, edition: int, path: str) -> None:
    stage = await open_stage(tmp_path, edition)
    outcome = await patch(stage.context(T2), "fi:turn_1.files/a.md", DIFF)
    assert stub_of(outcome) == f'[READ] patched, 1 lines now: react.read(["{path}"])'
    place = {1: "turn_2/files/a.md", 2: "t2/files/a.md"}[edition]
    assert f"the file written is {place} of" in outcome.notices[0].text


@pytest.mark.parametrize(
    ("edition", "old", "new"), [(1, "fi:turn_1.files/a.md", "fi:turn_2.files/a.md"), (2, "fi:t1/a.md", "fi:t2/a.md")]
)
async def test_the_stub_of_a_checkout_names_both_files(tmp_path: Path, edition: int, old: str, new: str) -> None:
    stage = await open_stage(tmp_path, edition)
    outcome = await checkout(stage.context(T2), ("fi:turn_1.files/a.md",))
    assert stub_of(outcome) == f'[READ] a copy of {old}: react.read(["{new}"])'


@pytest.mark.parametrize(("edition", "turn"), [(1, "turn_1"), (2, "t2")])
async def test_the_report_of_a_program_names_places_by_alias(tmp_path: Path, edition: int, turn: str) -> None:
    stage = await open_stage(tmp_path, edition, T1)
    code = "(OUT_DIR / 't2/files/a.md').write_text('x' * 9)\n(OUT_DIR / 't2/files/b.md').write_text('y')\n"
    settings = ExecSettings(shown_bytes=3)
    contract = {"filename": "a.md"}, {"filename": "c.md"}
    outcome = await run_exec(stage, code, *contract, sandbox=PlainSandbox(), settings=settings)
    assert outcome.status == (
        f"Runtime error: execution_failed — Missing output files: {turn}/files/c.md\n"
        f"File errors:\n- {turn}/files/c.md: file not produced\nSucceeded:\n- {turn}/files/a.md\n"
        f"Kept as internal files, because the contract does not name them:\n- {turn}/files/b.md"
    )
    path = {1: "fi:turn_1.files/a.md", 2: "fi:t2/a.md"}[edition]
    assert stub_of(outcome).endswith(f'; react.read(["{path}"])')


async def test_errors_and_notices_name_aliases(tmp_path: Path) -> None:
    stage = await open_stage(tmp_path, 2)
    context, views = stage.context(T2), stage.views
    outcome = await write(context, "fi:turn_1.files/a.md", content="x")
    assert "t2/files/a.md of the current turn" in outcome.notices[0].text
    with pytest.raises(CodedError, match=r"there is no file fi:t2/b\.md; other turns have fi:t1/b\.md: "):
        await stage.record_file("fi:turn_1.files/b.md", "text")
        await patch(context, "files/b.md", DIFF)
    with pytest.raises(CodedError, match=r"there is no file fi:t1/none\.md"):
        (path,) = select_files("fi:t1/none.md", T2, views)
        await load_local_file(path, context)
    with pytest.raises(CodedError, match=r"got ar:t1\.user\.prompt"):
        select_files("ar:turn_1.user.prompt", T2, views)
    with pytest.raises(CodedError, match=r"names t2/files/a\.md again"):
        resolve_contract((ContractFile(filename="a.md"), ContractFile(filename="a.md")), context, 9)


async def test_names_of_no_turn_stay_as_they_are(tmp_path: Path) -> None:
    views = (await open_stage(tmp_path, 2)).views
    assert [shown_place(place, views) for place in ("a.md", "other/a.md", "turn_1/a")] == ["a.md", "other/a.md", "t1/a"]
    assert shown_path("so:sources_pool[1]", views) == "so:sources_pool[1]"
