"""Programs in tasks: their inputs and outputs, and that nothing remains in the cloud."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fargate.fargate_harness import FargateHarness
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.policy.gates import Caller
from timeloom.ports.sandbox import CallDelegation, ExecutionLimits, Program, SandboxUnavailableError
from timeloom.sandbox.fargate.tasks import SECRET_PREFIX, EcsTasks
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.launch_payload import PAYLOAD_VARIABLE

pytestmark = pytest.mark.anyio

TOOLS = """
import json, os
from pathlib import Path
from typing import Any
from timeloom.tools.define import tool
from bundle_words import greeting

@tool("demo.hello", effect="pure")
async def hello(name: str, out_dir: Path) -> dict:
    '''Greets.

    name: who is greeted
    '''
    folder = Path(os.environ["TIMELOOM_DESCRIPTORS"])
    key = (folder / "secrets.yaml").read_text().strip()
    return {"said": greeting(name), "key": key, "variable": os.environ["DEMO"], "sees": sorted(os.listdir(out_dir))}
"""
LEAVE = CallDelegation(
    tool_ids=("demo.hello",),
    most_calls=2,
    caller=Caller(tenant="t", project="p", user="u"),
    conversation=ConversationId("conv_1"),
    turn_id=TurnId("turn_1"),
    tool_call_id=CallId("abc"),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "demo_bundle"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "demo_tools.py").write_text(TOOLS)
    (folder / "tools" / "bundle_words.py").write_text("def greeting(name):\n    return 'hello ' + name\n")
    return folder


async def test_a_program_runs_in_a_task_and_only_what_it_changed_comes_back(
    stage: FargateHarness, tmp_path: Path
) -> None:
    given = {"turn_1/files/same.txt": "same", "turn_1/files/other.txt": "old", "gone/gone.txt": "gone"}
    for name, text in given.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    code = """
import os, asyncio, json
await asyncio.sleep(0)
names = ("WORKDIR", "OUTPUT_DIR", "EXECUTION_ID", "AGENT_IO_CONTEXT")
print(json.dumps({"uid": os.getuid(), "groups": os.getgroups(), **{name: os.environ[name] for name in names}}))
(OUT_DIR / "turn_1/files/other.txt").write_text("new")
(OUT_DIR / "made.txt").write_text("made")
os.unlink(OUT_DIR / "gone/gone.txt")
os.symlink("/etc/passwd", OUT_DIR / "link")
import sys; sys.stderr.write("warned"); sys.exit(3)
"""
    done = await stage.run(code, inputs={name: tmp_path / "in" / name for name in given})
    seen = json.loads(done.ran.stdout_tail)
    assert (done.ran.ending, done.ran.exit_code) == ("exited", 3)
    assert seen == {
        "uid": stage.profile.uid,
        "groups": [],
        "WORKDIR": "/workspace/work",
        "OUTPUT_DIR": "/workspace/out",
        "EXECUTION_ID": "exec_1",
        "AGENT_IO_CONTEXT": "limited",
    }
    assert done.files == {
        "turn_1/files/same.txt": b"same",
        "turn_1/files/other.txt": b"new",
        "made.txt": b"made",
    }
    assert done.ran.detail == "not brought back: link (a link)"
    assert done.printed.endswith("warned")
    assert stage.remaining_resources() == []


async def test_a_task_is_told_the_name_of_a_secret_and_nothing_else(stage: FargateHarness) -> None:
    await stage.run("print(1)", sandbox=stage.sandbox(descriptors={"secrets.yaml": "key: hunter2"}))
    [task] = stage.aws.ecs.tasks
    [override] = task.overrides["containerOverrides"]
    [variable] = override["environment"]
    assert override["name"] == "exec"
    assert variable["name"] == PAYLOAD_VARIABLE
    assert variable["value"].startswith(f"{SECRET_PREFIX}exec_1/")


async def test_a_call_by_leave_is_carried_out_in_the_task_and_all_others_at_home(
    stage: FargateHarness, bundle: Path
) -> None:
    code = """
import json, os
answers = [io_tools.tool_call("demo.hello", {"name": name}) for name in "abc"]
answers.append(io_tools.tool_call("demo.other", {"x": 1}))
fetched = [context_tools.fetch_ctx("ar:plan"), context_tools.fetch_ctx("so:sources_pool[1]")]
print(json.dumps([answers, fetched, dict(os.environ)]))
"""
    sandbox = stage.sandbox(
        bundle=bundle,
        tool_modules=(bundle / "tools" / "demo_tools.py",),
        descriptors={"secrets.yaml": "hunter2"},
        env={"DEMO": "on"},
    )
    done = await stage.run(code, sandbox=sandbox, leave=LEAVE)
    answers, fetched, env = json.loads(done.ran.stdout_tail)
    said: dict[str, object] = {"said": "hello a", "key": "hunter2", "variable": "on", "sees": []}
    assert answers[0] == {"ok": True, "error": None, "ret": said}
    assert answers[2]["error"]["code"] == "gate_refused"
    assert answers[3]["ret"] == "demo.other at home"
    assert fetched == ["what is at ar:plan", [{"sid": 1}]]
    assert stage.broker.calls == [("demo.other", '{"x": 1}')]
    assert [(call.tool_id, call.params) for call in done.ran.calls] == [
        ("demo.hello", '{"name": "a"}'),
        ("demo.hello", '{"name": "b"}'),
    ]
    assert json.loads(done.ran.calls[0].answer) == answers[0]
    assert not {"DEMO", "TIMELOOM_DESCRIPTORS", PAYLOAD_VARIABLE} & set(env)
    assert not any(name.startswith("AWS") for name in env)


async def test_a_loaded_tool_without_leave_is_asked_for_at_home(stage: FargateHarness, bundle: Path) -> None:
    sandbox = stage.sandbox(
        bundle=bundle,
        tool_modules=(bundle / "tools" / "demo_tools.py",),
        descriptors={"secrets.yaml": "hunter2"},
        env={"DEMO": "on"},
    )
    done = await stage.run("print(io_tools.tool_call('demo.hello', {'name': 'a'})['ret'])", sandbox=sandbox)
    assert done.printed == "demo.hello at home\n"
    assert done.ran.calls == ()


async def test_a_module_of_tools_that_does_not_load_ends_the_execution_with_the_reason(
    stage: FargateHarness, tmp_path: Path
) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "tools.py").write_text("import nothing_of_this_name")
    done = await stage.run("print(1)", sandbox=stage.sandbox(bundle=folder, tool_modules=(folder / "tools.py",)))
    assert done.ran.ending == "killed"
    assert "tools.py" in done.ran.detail
    assert "nothing_of_this_name" in done.ran.detail
    assert done.printed == ""
    assert stage.remaining_resources() == []


async def test_a_program_that_is_cancelled_has_ended_and_left_nothing(stage: FargateHarness) -> None:
    sandbox = stage.sandbox()
    heard = asyncio.Event()
    program = Program(code="print('on')\nimport time; time.sleep(600)", execution_id="exec_1")

    async def enter() -> None:
        async with sandbox.run(program, stage.broker, lambda _stream, _text: heard.set()):
            pytest.fail("it was to be cancelled")

    entering = asyncio.create_task(enter())
    await heard.wait()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    [task] = stage.aws.ecs.tasks
    assert (task.status, task.exit_code) == ("STOPPED", 143)
    assert stage.remaining_resources() == []
    assert list(stage.profile.root().rglob("*.zip")) == []
    await sandbox.close()


async def test_closing_while_a_task_starts_tells_whoever_waits_and_leaves_nothing(stage: FargateHarness) -> None:
    sandbox = stage.sandbox()
    stage.aws.ecs.never_runs = True
    program = Program(code="print(1)", execution_id="exec_1")

    async def enter() -> None:
        async with sandbox.run(program, stage.broker, lambda _stream, _text: None):
            pytest.fail("it was to be ended")

    entering = asyncio.create_task(enter())
    await asyncio.to_thread(stage.aws.ecs.requested.wait)
    await sandbox.close()
    [task] = stage.aws.ecs.tasks
    assert task.status == "STOPPED"
    assert stage.remaining_resources() == []
    assert list(stage.profile.root().iterdir()) == []
    with pytest.raises(SandboxUnavailableError, match="closed before the program had ended"):
        await entering
    with pytest.raises(SandboxUnavailableError, match="the sandbox was closed"):
        await sandbox.check()


async def test_a_task_that_ecs_does_not_start_is_a_program_that_was_killed(stage: FargateHarness) -> None:
    stage.aws.ecs.refuses = "RESOURCE:CPU"
    done = await stage.run("print(1)")
    assert (done.ran.ending, done.ran.detail) == ("killed", "ECS did not start the task: RESOURCE:CPU")
    assert stage.remaining_resources() == []


async def test_a_task_that_the_platform_stops_says_why(stage: FargateHarness) -> None:
    stage.aws.ecs.stop_reason = "CannotPullContainerError: no such image"
    stage.aws.ecs.hidden_polls = 3
    done = await stage.run("print(1)")
    assert done.ran.ending == "killed"
    assert "CannotPullContainerError" in done.ran.detail
    assert stage.remaining_resources() == []


async def test_a_task_that_does_not_begin_to_run_is_stopped(stage: FargateHarness) -> None:
    stage.aws.ecs.never_runs = True
    done = await stage.run("print(1)", sandbox=stage.sandbox(launch_timeout_s=0.2))
    assert (done.ran.ending, done.ran.detail) == ("killed", "the task did not run within 0.2 s")
    assert stage.aws.ecs.tasks[0].status == "STOPPED"
    assert stage.remaining_resources() == []


async def test_a_task_that_does_not_end_is_stopped(stage: FargateHarness) -> None:
    sandbox = stage.sandbox(transfer_s=-598.0)
    done = await stage.run("import time; time.sleep(60)", sandbox=sandbox, limits=ExecutionLimits(wall_s=600.0))
    assert (done.ran.ending, done.ran.exit_code) == ("timeout", 137)
    assert stage.aws.ecs.tasks[0].status == "STOPPED"
    assert stage.remaining_resources() == []


async def test_a_launch_that_no_secret_can_hold_says_which_part_is_too_large(stage: FargateHarness) -> None:
    many = " ".join(f"{n * n:x}" for n in range(60_000))
    done = await stage.run("print(1)", sandbox=stage.sandbox(descriptors={"bundles.yaml": many}))
    assert done.ran.ending == "killed"
    assert "bundles.yaml" in done.ran.detail
    assert stage.aws.ecs.tasks == []
    assert stage.remaining_resources() == []


async def test_services_that_cannot_be_used_are_told_before_a_program_is_run(stage: FargateHarness) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"cluster": "another"}, "cluster"),
        ({"container": "another"}, "container"),
        ({"bucket": "another-bucket"}, "head_bucket"),
        ({"subnets": ()}, "execution.runtime.subnets"),
        ({"endpoint_url": "http://127.0.0.1:9"}, "EndpointConnectionError"),
    ]
    for changed, said in wrong:
        with pytest.raises(SandboxUnavailableError, match=said):
            await stage.sandbox(**changed).check()
    with pytest.raises(SandboxUnavailableError, match="NoSuchBucket"):
        await stage.run("print(1)", sandbox=stage.sandbox(bucket="another-bucket"))


class Tomorrow:
    """A clock of the day after tomorrow."""

    def epoch_us(self) -> int:
        return 4_102_444_800_000_000


async def test_what_callers_that_died_have_left_is_swept_when_it_is_a_day_old(stage: FargateHarness) -> None:
    EcsTasks(stage.cloud, stage.profile).create_secret(f"{SECRET_PREFIX}old/1", b"x")
    Bucket(stage.cloud, stage.profile.bucket).put(f"{stage.profile.prefix}/old/1/out.zip", b"x")
    Bucket(stage.cloud, stage.profile.bucket).put("somebody/elses", b"x")
    today = stage.sandbox()
    await today.check()
    await today.close()
    assert len(stage.remaining_resources()) == 3
    later = stage.sandbox(clock=Tomorrow())
    await later.check()
    await later.close()
    assert stage.remaining_resources() == ["somebody/elses"]


async def test_a_snapshot_that_was_changed_in_the_bucket_is_not_run(stage: FargateHarness) -> None:
    """An attacker who can write to the bucket but not read the secret cannot replace the program."""
    sandbox = stage.sandbox()
    stage.aws.ecs.never_runs = True
    program = Program(code="print('ours')", execution_id="exec_1")
    bucket = Bucket(stage.cloud, stage.profile.bucket)
    heard: list[str] = []

    async def enter() -> str:
        async with sandbox.run(program, stage.broker, lambda _, text: heard.append(text)) as ran:
            return f"{ran.ending}: {ran.detail}"

    entering = asyncio.create_task(enter())
    await asyncio.to_thread(stage.aws.ecs.requested.wait)
    [key] = [each.key for each in bucket.list_objects("") if each.key.endswith("program.py")]
    bucket.put(key, b"print('theirs')")
    stage.aws.ecs.launch(stage.aws.ecs.tasks[0])
    assert await entering == "killed: program.py was changed on its way"
    assert heard == []
    await sandbox.close()
