"""Values computed before a launch: descriptors by scope, paths in the task, and the launch request."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from timeloom.core.blocks import ToolError
from timeloom.ports.clock import SystemClock
from timeloom.ports.sandbox import CallDelegation, DelegatedCall
from timeloom.ports.tool import Artifact, Outcome, ToolContext, ToolSpec
from timeloom.sandbox.fargate import scoped
from timeloom.sandbox.fargate.upload import task_module_path
from timeloom.sandbox.remote.launch_payload import (
    MAX_PAYLOAD_BYTES,
    VERSION,
    LaunchPayload,
    ObjectRef,
    decode_launch,
    encode_launch,
)
from timeloom.sandbox.remote.tool_loader import MAX_KEPT_CHARS, TaskToolRunner, encode_outcome

LISTED = yaml.safe_dump(
    {"bundles": {"version": "1", "items": [{"id": "a", "key": "of a"}, {"id": "b", "key": "of b"}]}}
)
NAMED = yaml.safe_dump({"bundles": {"a": {"key": "of a"}, "b": {"key": "of b"}}})
LAUNCH = LaunchPayload(
    execution_id="exec_1",
    name="program",
    bucket="bucket",
    base="base/",
    code=ObjectRef("code", "0"),
    work=ObjectRef("work", "0"),
    out=ObjectRef("out", "0"),
)


@pytest.mark.parametrize("text", [LISTED, NAMED])
def test_of_the_bundles_only_the_active_one_goes_along(text: str) -> None:
    cut = scoped({"bundles.secrets.yaml": text, "assembly.yaml": "of all"}, "active_bundle", "a")
    assert "of a" in cut["bundles.secrets.yaml"]
    assert "of b" not in cut["bundles.secrets.yaml"]
    assert cut["assembly.yaml"] == "of all"


def test_by_default_all_descriptors_go_along() -> None:
    assert scoped({"bundles.yaml": NAMED}, "full", "a") == {"bundles.yaml": NAMED}


@pytest.mark.parametrize(
    "text", ["- a", "bundles: 1", "bundles: {items: {a: 1}}", "bundles: {items: [1]}", "a: [", "'"]
)
def test_a_descriptor_that_cannot_be_cut_does_not_go_along(text: str) -> None:
    with pytest.raises(ValueError, match=r"bundles\.yaml"):
        scoped({"bundles.yaml": text}, "active_bundle", "a")


def test_an_empty_descriptor_stays_empty() -> None:
    assert yaml.safe_load(scoped({"bundles.yaml": ""}, "active_bundle", "a")["bundles.yaml"]) == {"bundles": {}}


def test_the_path_of_a_module_is_that_of_the_task() -> None:
    place = task_module_path(Path("/srv/bundles/demo/tools/search.py"), Path("/srv/bundles/demo"))
    assert place == "/workspace/bundles/demo/tools/search.py"


@pytest.mark.parametrize("module", ["/srv/other/tools.py", "/srv/bundles/demo/../other.py"])
def test_a_module_outside_the_bundle_is_refused(module: str) -> None:
    with pytest.raises(ValueError, match="not in the bundle"):
        task_module_path(Path(module), Path("/srv/bundles/demo"))
    with pytest.raises(ValueError, match="not in the bundle"):
        task_module_path(Path(module), None)


def test_a_launch_comes_out_of_its_secret_as_it_went_in() -> None:
    launch = msgspec.structs.replace(
        LAUNCH, descriptors={"a": "b"}, leave=CallDelegation(tool_ids=("x",), most_calls=1)
    )
    assert decode_launch(encode_launch(launch)) == launch


def test_a_launch_of_another_version_or_form_is_refused() -> None:
    with pytest.raises(ValueError, match="build it again"):
        decode_launch(encode_launch(msgspec.structs.replace(LAUNCH, version=VERSION + 1)))
    for data in (b"", b"garbage", encode_launch(LAUNCH)[:-10]):
        with pytest.raises(ValueError, match="payload"):
            decode_launch(data)
    bomb = encode_launch(msgspec.structs.replace(LAUNCH, descriptors={"a": "x" * (MAX_PAYLOAD_BYTES + 1)}))
    with pytest.raises(ValueError, match="more than"):
        decode_launch(bomb)


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (Outcome(), {"ok": True, "error": None, "ret": None}),
        (Outcome(status='{"a":1}'), {"ok": True, "error": None, "ret": {"a": 1}}),
        (Outcome(summary="said"), {"ok": True, "error": None, "ret": "said"}),
        (
            Outcome(artifacts=(Artifact(path="tc:turn_1.a.result", mime="text/plain", text="1"),)),
            {"ok": True, "error": None, "ret": "1"},
        ),
        (
            Outcome(artifacts=(Artifact(path="fi:turn_1.files/a.txt", mime="text/plain", text="1"),), status="made"),
            {
                "ok": True,
                "error": None,
                "ret": {
                    "artifacts": [{"path": "fi:turn_1.files/a.txt", "mime": "text/plain", "text": "1"}],
                    "status": "made",
                },
            },
        ),
    ],
)
def test_an_outcome_is_answered_as_at_home(outcome: Outcome, answer: object) -> None:
    assert msgspec.json.decode(encode_outcome(outcome)) == answer


class FakeTool:
    """A tool that does as it was told when it was made."""

    def __init__(self, outcome: Outcome | Exception | None) -> None:
        self.outcome = outcome

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(tool_id="a.b", purpose="x", deadline_s=0.05)

    async def call(self, params: str, context: ToolContext) -> Outcome:
        if self.outcome is None:
            await asyncio.sleep(60)
        if isinstance(self.outcome, Outcome):
            return self.outcome
        raise self.outcome or AssertionError


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome(error=ToolError("tool_call_error", "no")), "tool_call_error"),
        (RuntimeError("/srv/secret"), "tool_call_error"),
        (None, "tool_timeout"),
    ],
)
def test_whatever_goes_wrong_in_a_tool_is_an_answer(outcome: Outcome | Exception | None, code: str) -> None:
    made: list[DelegatedCall] = []
    box = TaskToolRunner(
        {"a.b": FakeTool(outcome)}, CallDelegation(tool_ids=("a.b",), most_calls=1), Path("/"), SystemClock()
    )
    answer = asyncio.run(box.call("a.b", "{}", made.append))
    assert f'"code":"{code}"' in answer
    assert "/srv/secret" not in answer
    assert made == [DelegatedCall(tool_id="a.b", params="{}", answer=answer)]


def test_a_call_that_is_stopped_with_its_program_is_told_of() -> None:
    made: list[DelegatedCall] = []
    box = TaskToolRunner(
        {"a.b": FakeTool(None)}, CallDelegation(tool_ids=("a.b",), most_calls=1), Path("/"), SystemClock()
    )

    async def stop() -> None:
        calling = asyncio.create_task(box.call("a.b", "{}", made.append))
        await asyncio.sleep(0)
        calling.cancel()
        await asyncio.wait((calling,))

    asyncio.run(stop())
    assert "tool_interrupted" in made[0].answer


def test_a_long_answer_is_cut_where_it_is_kept() -> None:
    made: list[DelegatedCall] = []
    tool = FakeTool(Outcome(status="x" * (2 * MAX_KEPT_CHARS)))
    box = TaskToolRunner({"a.b": tool}, CallDelegation(tool_ids=("a.b",), most_calls=1), Path("/"), SystemClock())
    answer = asyncio.run(box.call("a.b", "{}", made.append))
    assert len(answer) > 2 * MAX_KEPT_CHARS
    assert msgspec.json.decode(made[0].answer)["ret"].endswith("...[truncated]")


def test_without_the_client_of_aws_it_is_said_what_installs_it() -> None:
    code = (
        "import sys; sys.modules['boto3'] = sys.modules['boto3.session'] = None\n"
        "from timeloom.ports.sandbox import SandboxUnavailableError\n"
        "from timeloom.sandbox.remote.cloud import Cloud\n"
        "try: Cloud().call('s3', 'head_bucket', {})\n"
        "except SandboxUnavailableError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "the client of AWS is not installed; pip install 'timeloom[aws]'\n"
