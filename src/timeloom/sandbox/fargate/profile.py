"""The profile of the Fargate sandbox: where its tasks run, and what they are given."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from timeloom.ports.sandbox import SandboxUnavailableError

PayloadScope = Literal["full", "active_bundle"]


class FargateProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a Fargate sandbox is made with."""

    cluster: str
    task_definition: str
    container: str = "exec"
    """The container of the task definition that runs `python -m timeloom.sandbox.remote`."""

    bucket: str
    prefix: str = "timeloom/executions"
    region: str = ""
    endpoint_url: str = ""
    """Of all services, where they are not AWS's own."""

    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    assign_public_ip: bool = False
    poll_s: float = 2.0
    """Between two looks at a task. Shorter costs requests, which AWS throttles; longer makes each of a program's
    questions to its conversation take longer."""

    launch_timeout_s: float = 300.0
    """How long a task may take until it runs."""

    transfer_s: float = 300.0
    """What a task may take beyond its program's time, to get and to send files."""

    descriptor_payload_scope: PayloadScope = "full"
    descriptors: Mapping[str, str] = {}
    """Files of settings and secrets that tools in the task find, by name; what `scoped` has left of them."""

    env: Mapping[str, str] = {}
    """Variables of the remote supervisor; they travel as the descriptors do, and no program sees them."""

    bundle: Path | None = None
    """The folder of the bundle's code."""

    tool_modules: tuple[Path, ...] = ()
    """Files in it that have tools at their top level."""

    uid: int = 1001
    folder: Path | None = None
    """Where what a program left is put on this machine; a temporary folder of this user where none is named."""

    def root(self) -> Path:
        """The folder under which executions have theirs."""
        return self.folder or Path(tempfile.gettempdir()) / f"timeloom-fargate-{os.geteuid()}"

    def check(self) -> None:
        """Raises `SandboxUnavailableError` where something is not set that no task can do without."""
        needed = {
            "cluster": self.cluster,
            "task_definition": self.task_definition,
            "bucket": self.bucket,
            "subnets": self.subnets,
        }
        missing = [f"execution.runtime.{name}" for name, value in needed.items() if not value]
        if missing:
            raise SandboxUnavailableError(f"programs cannot run on Fargate: set {', '.join(missing)}")
