"""A model that writes only short aliases works with every kind of path, and the log has the ids."""

import asyncio
import re
from pathlib import Path

from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, calls
from timeloom.core.blocks import AnyBlock, ResultContent, ResultDigest, ResultStatus, ToolCall
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import ConversationNames, parse_in
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.sandbox.local.sandbox import LocalSandbox
from timeloom.sandbox.local.settings import LocalSettings
from timeloom.tools.exec.tool import ExecTool

CODE = """<channel:code>
words = (OUT_DIR / "t2/files/report.md").read_text().split()
first = context_tools.fetch_ctx("ar:t1.user.prompt")
(OUT_DIR / "t2/outputs/count.csv").write_text(f"{len(words)},{first}\\n")
print((OUT_DIR / "t1/files/report.md").read_text())
</channel:code>"""

FIRST = (calls("react.write", path="fi:t1/report.md", content="# Report\nall is well\n"), answers("Written."))
SECOND = (
    calls("react.read", paths=["fi:t1/report.md", "tc:t1.1.call", "ar:t1.assistant.completion"]),
    calls("react.rg", pattern="well", roots=["t1", "fi:t1/"]),
    calls("react.patch", path="fi:t1/report.md", patch="@@ -2 +2 @@\n-all is well\n+all is very well\n"),
    calls("exec_tools.execute_code_python", contract=[{"filepath": "t2/outputs/count.csv"}]) + CODE,
    calls("react.write", path="fi:t2.outputs/copy.csv", content="ref:fi:t2.outputs/count.csv"),
    calls("react.read", paths=["fi:t3/x.md", "tc:t2.9.result"]),
    answers("Done."),
)


def test_a_turn_that_names_everything_by_alias(tmp_path: Path) -> None:
    async def check() -> None:
        sandbox = LocalSandbox(LocalSettings(warm=0))
        stage = TurnHarness(tmp_path, *FIRST, *SECOND)
        stage.extra = (ExecTool(sandbox),)
        turns = await stage.open()
        try:
            assert await turns.run("write a report") == "completed"
            assert await turns.run("count its words") == "completed"
        finally:
            await sandbox.close()
        entries = await load_entries(turns)
        first, second = turns.session.views.turns.by_number
        results = {
            entry.block.artifact_path: entry.block.text
            for entry in entries
            if entry.turn_id == second and isinstance(entry.block, ResultContent)
        }
        assert results[f"fi:{second}.files/report.md"] == "# Report\nall is very well\n"
        assert results[f"fi:{second}.outputs/count.csv"] == "6,write a report\n"
        assert results[f"fi:{second}.outputs/copy.csv"] == "6,write a report\n"
        statuses = [str(entry.block.text) for entry in entries if isinstance(entry.block, ResultStatus)]
        assert f'"logical_path":"fi:{first}.files/report.md"' in "".join(statuses)
        assert "| all is well" in "".join(statuses)
        assert "t3 names no turn: the conversation has 2 turns" in statuses[-1]
        assert "t2.9 names no call: turn 2 has 6 calls" in statuses[-1]
        assert_log_has_ids(entries)
        names, views = ConversationNames(turns.session.views), turns.session.views
        for entry in entries:
            if entry.turn_id and entry.path:
                assert re.match(r"(?:ar|tc|fi|ws):t[12][./]", names.path(entry.path)), entry.path
                assert str(parse_in(names.path(entry.path), views)) == entry.path

    asyncio.run(check())


async def load_entries(turns: TurnRunner) -> list[Entry]:
    return await turns.session.entries(range(1, turns.session.views.tail + 1))


def assert_log_has_ids(entries: list[Entry]) -> None:
    """Check that the calls have the aliases as the model wrote them, and that all paths are long."""
    for entry in entries:
        for path in (entry.path, *paths_of(entry.block)):
            assert not re.match(r"\w\w:t[0-9]", path)
            assert not re.match(r"t[0-9]", path)
    params = [str(entry.block.params) for entry in entries if isinstance(entry.block, ToolCall)]
    assert '"fi:t1/report.md"' in params[0]


def paths_of(block: AnyBlock) -> list[str]:
    match block:
        case ResultDigest(digest=digest):
            return [digest.artifact_path, digest.physical_path]
        case ResultContent(artifact_path=path):
            return [path]
        case _:
            return []
