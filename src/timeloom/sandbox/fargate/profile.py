"""Settings of the Fargate sandbox: where its tasks run and the files they get."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from timeloom.ports.sandbox import SandboxUnavailableError

PayloadScope = Literal["full", "active_bundle"]


class FargateProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a Fargate sandbox."""

    cluster: str
    task_definition: str
    container: str = "exec"
    """The container of the task definition that runs `python -m timeloom.sandbox.remote`."""

    bucket: str
    prefix: str = "timeloom/executions"
    region: str = ""
    endpoint_url: str = ""
    """Endpoint of all services, if it is not AWS itself."""

    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    assign_public_ip: bool = False
    poll_s: float = 2.0
    """Seconds between two polls of a task. A shorter interval costs requests, which AWS throttles; a longer one delays
    every request of a program to its conversation."""

    launch_timeout_s: float = 300.0
    """Seconds within which a task must be running."""

    transfer_s: float = 300.0
    """Seconds that a task may take beyond its program's limit, to download and upload files."""

    descriptor_payload_scope: PayloadScope = "full"
    descriptors: Mapping[str, str] = {}
    """Settings and secrets files for tools in the task, by name. If the task has tool modules, the launch adds those of
    the running bundle and applies the scope."""

    env: Mapping[str, str] = {}
    """Environment variables of the remote supervisor; they are sent like the descriptors, and no program sees them."""

    bundle: Path | None = None
    """The folder of the bundle's code."""

    tool_modules: tuple[Path, ...] = ()
    """Files in the bundle that define tools at their top level."""

    uid: int = 1001
    folder: Path | None = None
    """Local folder for the programs' files; by default a temporary folder of this user."""

    def root(self) -> Path:
        """Return the folder that contains the folders of all executions."""
        return self.folder or Path(tempfile.gettempdir()) / f"timeloom-fargate-{os.geteuid()}"

    def check(self) -> None:
        """Raise `SandboxUnavailableError` if a required setting is missing."""
        needed = {
            "cluster": self.cluster,
            "task_definition": self.task_definition,
            "bucket": self.bucket,
            "subnets": self.subnets,
        }
        missing = [f"execution.runtime.{name}" for name, value in needed.items() if not value]
        if missing:
            raise SandboxUnavailableError(f"programs cannot run on Fargate: set {', '.join(missing)}")
