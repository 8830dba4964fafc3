"""Harness for the Fargate sandbox: a sandbox on a local AWS, and a check for leftovers there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.fargate.fake_aws import FakeAws
from timeloom.ports.clock import Clock
from timeloom.ports.sandbox import Broker, CallDelegation, ExecutionLimits, Program, ProgramResult
from timeloom.sandbox.fargate import FargateProfile, FargateSandbox
from timeloom.sandbox.fargate.tasks import EcsTasks
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.cloud import Cloud

REGION = "eu-west-1"


class RecordingBroker:
    """Answers every call and records it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    async def call(self, tool_id: str, params: str) -> str:
        self.calls.append((tool_id, params))
        return msgspec.json.encode({"ok": True, "error": None, "ret": f"{tool_id} at home"}).decode()

    async def fetch(self, path: str) -> str:
        if path.startswith("so:"):
            return '{"ok":true,"error":null,"ret":[{"sid":1}]}'
        return msgspec.json.encode({"ok": True, "error": None, "ret": f"what is at {path}"}).decode()


@dataclass
class FinishedProgram:
    """How a program ended, and its output files, read before they were removed."""

    ran: ProgramResult
    files: dict[str, bytes]
    printed: str


@dataclass
class FargateHarness:
    """A test's AWS and the profile of a sandbox on it."""

    aws: FakeAws
    profile: FargateProfile
    cloud: Cloud
    broker: RecordingBroker = field(default_factory=RecordingBroker)

    @classmethod
    def create(cls, aws: FakeAws, folder: Path, bucket: str) -> "FargateHarness":
        cloud = Cloud(REGION, aws.url)
        place = {"LocationConstraint": REGION}
        cloud.call("s3", "create_bucket", {"Bucket": bucket, "CreateBucketConfiguration": place})
        profile = FargateProfile(
            cluster="exec",
            task_definition="exec",
            bucket=bucket,
            region=REGION,
            endpoint_url=aws.url,
            subnets=("subnet-1",),
            poll_s=0.1,
            folder=folder / "runs",
        )
        return cls(aws, profile, cloud)

    def sandbox(self, clock: Clock | None = None, **changed: Any) -> FargateSandbox:
        return FargateSandbox(msgspec.structs.replace(self.profile, **changed), clock=clock)

    async def run(
        self,
        code: str,
        *,
        sandbox: FargateSandbox | None = None,
        inputs: Mapping[str, Path] | None = None,
        limits: ExecutionLimits | None = None,
        leave: CallDelegation | None = None,
        broker: Broker | None = None,
    ) -> FinishedProgram:
        """Run the program to its end."""
        program = Program(
            code=code,
            execution_id="exec_1",
            inputs=inputs or {},
            limits=limits or ExecutionLimits(),
            leave=leave or CallDelegation(),
        )
        pieces: list[str] = []
        used = sandbox or self.sandbox()
        try:
            async with used.run(program, broker or self.broker, lambda _, text: pieces.append(text)) as ran:
                return FinishedProgram(ran, read_files(ran.out_dir), "".join(pieces))
        finally:
            await used.close()

    def remaining_resources(self) -> list[str]:
        """Return the objects and secrets that remain in the cloud."""
        objects = [each.key for each in Bucket(self.cloud, self.profile.bucket).list_objects("")]
        return objects + [each.name for each in EcsTasks(self.cloud, self.profile).list_secrets()]


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files below the folder by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
