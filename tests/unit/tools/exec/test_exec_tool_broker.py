"""Requests of a running program to its broker, and the answers."""

import base64
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.harness.exec import SPECS, make_exec_context
from tests.harness.react_tools import T1, ToolHarness, open_tool_harness
from timeloom.core.blocks import SourcesAdded, UserPrompt, WorkingSummary
from timeloom.core.sources import SourceRow
from timeloom.ports.sandbox import ExecutionLimits
from timeloom.ports.tool import ToolSpec
from timeloom.tools.exec.broker import MAX_COUNTED, ProgramBroker
from timeloom.tools.exec.guest_modules import make_tool_stubs
from timeloom.tools.react.toolset import react_tools

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    return await open_tool_harness(tmp_path / "out")


async def broker_of(
    stage: ToolHarness, specs: Sequence[ToolSpec] | None = SPECS, fetch_bytes: int = 10_000
) -> ProgramBroker:
    return ProgramBroker(await make_exec_context(stage, "print(1)", specs), fetch_bytes)


class Said(msgspec.Struct):
    """An answer as a program gets it."""

    ok: bool
    error: dict[str, str] | None
    ret: object


def said(answer: str) -> Said:
    return msgspec.json.decode(answer, type=Said)


async def fetched(stage: ToolHarness, path: str) -> object:
    answer = said(await (await broker_of(stage)).fetch(path))
    assert (answer.ok, answer.error) == (True, None)
    return answer.ret


async def refused(stage: ToolHarness, path: str, fetch_bytes: int = 10_000) -> str:
    answer = said(await (await broker_of(stage, fetch_bytes=fetch_bytes)).fetch(path))
    assert (answer.ok, answer.ret) == (False, None)
    assert answer.error is not None
    return answer.error["code"]


async def test_texts_of_the_conversation_are_fetched_by_their_paths(stage: ToolHarness) -> None:
    await stage.append(UserPrompt(text="which ferries?"), WorkingSummary(text="so far", n=1))
    await stage.record_file("fi:turn_1.files/report.md", "# Report")
    assert await fetched(stage, "ar:turn_1.user.prompt") == "which ferries?"
    assert await fetched(stage, "ws:turn_1.conv.working.summary") == "so far"
    assert await fetched(stage, "fi:turn_1.files/report.md") == "# Report"
    assert await fetched(stage, "tc:turn_1.call2.code") == "print(1)"


async def test_sources_are_fetched_as_their_rows(stage: ToolHarness) -> None:
    body = "text " * 20_000
    rows = (
        SourceRow(sid=1, title="A", url="https://a.example/", content=body, hosted_uri="s3://b", rn="r", key="k"),
        SourceRow(sid=2, title="B", url="https://b.example/"),
    )
    await stage.append(SourcesAdded(rows=rows))
    broker = await broker_of(stage, fetch_bytes=1_000_000)
    assert said(await broker.fetch("so:sources_pool[1,2,9]")).ret == [
        {"sid": 1, "source_type": "web", "title": "A", "url": "https://a.example/", "content": body},
        {"sid": 2, "source_type": "web", "title": "B", "url": "https://b.example/"},
    ]


async def test_bytes_are_fetched_with_what_is_known_of_them(stage: ToolHarness) -> None:
    await stage.attach("a.xlsx", "application/x", b"PK\0", turn=T1)
    assert await fetched(stage, "fi:turn_1.user.attachments/a.xlsx") == {
        "path": "fi:turn_1.user.attachments/a.xlsx",
        "physical_path": "turn_1/attachments/a.xlsx",
        "mime": "application/x",
        "size_bytes": 3,
        "base64": base64.b64encode(b"PK\0").decode(),
    }


async def test_several_things_are_fetched_as_a_list(stage: ToolHarness) -> None:
    await stage.append(UserPrompt(text="one"), WorkingSummary(text="two", n=1))
    assert await fetched(stage, "ar:log[2-3]") == ["one", "two"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "path_malformed"),
        ("/etc/passwd", "path_malformed"),
        ("fi:turn_1.files/../../etc/passwd", "path_escapes_root"),
        ("ar:turn_9.user.prompt", "path_not_found"),
        ("fi:turn_1.files/none.md", "path_not_found"),
        ("sk:some.skill", "path_malformed"),
        ("ks:some.page", "path_malformed"),
    ],
)
async def test_what_cannot_be_fetched_is_refused_with_a_code(stage: ToolHarness, path: str, code: str) -> None:
    assert await refused(stage, path) == code


async def test_what_is_too_large_is_not_fetched(stage: ToolHarness) -> None:
    await stage.record_file("fi:turn_1.files/a.md", "x" * 11_000)
    await stage.record_file("fi:turn_1.files/b.md", "\n" * 900)
    assert await refused(stage, "fi:turn_1.files/a.md") == "tool_result_too_large"
    assert await refused(stage, "fi:turn_1.files/b.md", fetch_bytes=1_000) == "tool_result_too_large"


async def test_only_tools_that_may_be_called_are(stage: ToolHarness) -> None:
    broker = await broker_of(stage)
    assert said(await broker.call("web_tools.web_search", '{"query":"x"}')).ret == {"query": "x"}
    answer = said(await broker.call("exec_tools.execute_code_python", "{}"))
    assert answer.error is not None
    assert answer.error["code"] == "unknown_tool"
    assert "web_tools.broken, web_tools.web_search" in answer.error["message"]


async def limited(stage: ToolHarness, limits: ExecutionLimits) -> ProgramBroker:
    return ProgramBroker(await make_exec_context(stage, "print(1)"), 10_000, limits)


def outcome(answer: str) -> str:
    told = said(answer)
    return "ok" if told.error is None else told.error["code"]


async def test_a_program_makes_so_many_calls_and_no_more(stage: ToolHarness) -> None:
    broker = await limited(stage, ExecutionLimits(tool_calls=3))
    answers = [await broker.call("web_tools.web_search", "{}") for _ in range(5)]
    assert [outcome(answer) for answer in answers] == ["ok"] * 3 + ["call_limit"] * 2
    assert broker.calls["web_tools.web_search"] == {"ok": 3, "call_limit": 2}
    outer = stage.views.calls.get(T1, broker.context.tool_call_id)
    assert outer is not None
    assert len(outer.inner) == 3, "what is refused is not on the timeline"


async def test_calls_of_a_program_hold_so_many_bytes_and_no_more(stage: ToolHarness) -> None:
    """The limit counts parameters and answers."""
    broker = await limited(stage, ExecutionLimits(tool_bytes=3_000))
    params = msgspec.json.encode({"query": "ü" * 500}).decode()
    answers = [await broker.call("web_tools.web_search", params) for _ in range(3)]
    assert [outcome(answer) for answer in answers] == ["ok", "call_limit", "call_limit"]
    assert outcome(await broker.call("web_tools.web_search", "{}")) == "ok"


async def test_without_tools_none_may_be_called(stage: ToolHarness) -> None:
    answer = said(await (await broker_of(stage, None)).call("web_tools.web_search", "{}"))
    assert answer.error is not None
    assert answer.error["message"].endswith("none may")


async def test_a_program_that_calls_what_is_not_there_fills_no_memory(stage: ToolHarness) -> None:
    broker = await broker_of(stage)
    for number in range(3 * MAX_COUNTED):
        await broker.call(f"no.such{number}", "{}")
    assert len(broker.calls) == MAX_COUNTED + 1
    assert broker.calls["others"].total() == 2 * MAX_COUNTED


def test_stubs_have_names_of_python() -> None:
    ids = ["web_tools.web_search", "mcp.my-server.do-it", "alone", "x.import", "x.2nd", "mcp.my_server.do_it"]
    stubs = make_tool_stubs([ToolSpec(tool_id=tool_id, purpose="p", description="d") for tool_id in ids])
    assert [(stub.tool_id, stub.module, stub.function) for stub in stubs] == [
        ("web_tools.web_search", "web_tools", "web_search"),
        ("mcp.my-server.do-it", "mcp_my_server", "do_it"),
        ("alone", "tools", "alone"),
        ("x.import", "x", "import_"),
        ("x.2nd", "x", "_2nd"),
    ]
    assert stubs[0].doc == "p\n\nd"


def test_stubs_know_the_order_of_parameters() -> None:
    assert make_tool_stubs(SPECS)[0].params == ("query", "n")
    (write,) = [
        stub for stub in make_tool_stubs([tool.spec for tool in react_tools()]) if stub.tool_id == "react.write"
    ]
    assert write.params[:3] == ("path", "content", "channel")
