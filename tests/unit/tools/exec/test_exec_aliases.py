"""Programs find the folders of turns under their short aliases, and nothing is collected twice or from elsewhere."""

from pathlib import Path

import pytest

from tests.harness.exec import PlainSandbox, run_exec
from tests.harness.react_tools import ToolHarness, open_tool_harness
from timeloom.core.blocks import TurnStarted
from timeloom.core.ids import TurnId
from timeloom.ports.tool import Outcome

pytestmark = pytest.mark.anyio
T0 = TurnId("turn_0")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    """The first turn has a file; programs run in the second turn, `turn_1`."""
    stage = await open_tool_harness(tmp_path / "out")
    await stage.record_file("fi:turn_0.files/old.md", "# Old", turn=T0)
    await stage.append(TurnStarted(n=2))
    return stage


def printed(outcome: Outcome) -> str:
    return str(outcome.status).removeprefix("The program ended without an error.\n")


async def test_a_program_reads_and_writes_through_aliases(stage: ToolHarness) -> None:
    sandbox = PlainSandbox()
    code = "(OUT_DIR / 't2/files/new.md').write_text((OUT_DIR / 't1/files/old.md').read_text() + ' and new')"
    outcome = await run_exec(stage, code, {"filepath": "t2/files/new.md"}, sandbox=sandbox)
    assert outcome.status == "Succeeded:\n- turn_1/files/new.md"
    assert [(one.path, one.text) for one in outcome.artifacts] == [("fi:turn_1.files/new.md", "# Old and new")]
    assert sandbox.programs[0].links == {"t1": "turn_0", "t2": "turn_1"}


async def test_only_turns_with_folders_have_links(stage: ToolHarness) -> None:
    sandbox = PlainSandbox()
    outcome = await run_exec(stage, "import os\nprint(sorted(os.listdir(OUT_DIR)))", sandbox=sandbox)
    assert printed(outcome) == "Printed:\n| ['t2', 'turn_1']"
    assert sandbox.programs[0].links == {"t2": "turn_1"}


async def test_a_folder_and_a_pattern_are_named_by_alias(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_0.files/deep/2.md", "# 2", turn=T0)
    sandbox = PlainSandbox()
    code = "print(sorted(path.name for path in OUT_DIR.glob('t1/files/**/*.md')))"
    outcome = await run_exec(stage, code, sandbox=sandbox)
    assert printed(outcome) == "Printed:\n| ['2.md', 'old.md']"
    assert outcome.artifacts == ()


async def test_a_file_named_by_an_alias_of_no_turn_is_told(stage: ToolHarness) -> None:
    outcome = await run_exec(stage, "print('t9/files/none.md', 't1/files/none.md')")
    assert "Named in the code and not found:\n- t9/files/none.md\n- fi:turn_0.files/none.md\n" in str(outcome.status)


async def test_a_link_that_the_program_turned_elsewhere_is_not_followed(stage: ToolHarness, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/files").mkdir()
    (tmp_path / "secret/files/key.md").write_text("key")

    def turn_link(folder: Path) -> None:
        (folder / "t2").unlink()
        (folder / "t2").symlink_to(tmp_path / "secret")

    outcome = await run_exec(stage, "print(1)", sandbox=PlainSandbox(after=turn_link))
    assert outcome.artifacts == ()
    assert "- t2: 't2' is a symbolic link" in str(outcome.status)


async def test_a_folder_that_takes_the_place_of_a_link_belongs_to_the_turn(stage: ToolHarness) -> None:
    code = """
import os
os.remove(OUT_DIR / "t2")
for turn in ("t2", "t9"):
    os.makedirs(OUT_DIR / turn / "files")
    (OUT_DIR / turn / "files/new.md").write_text(turn)
"""
    outcome = await run_exec(stage, code)
    assert [(one.path, one.text) for one in outcome.artifacts] == [
        ("fi:turn_1.files/new.md", "t2"),
        ("fi:turn_1.files/t9/files/new.md", "t9"),
    ]
