"""Defines the launch payload that a caller sends to its task and the report that the task returns."""

import hashlib
import zlib
from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.ports.sandbox import CallDelegation, ExecutionLimits, ExitReason, ProgramUsage, ToolStub
from timeloom.sandbox.remote.snapshot import SnapshotLimits

PAYLOAD_VARIABLE: Final = "TIMELOOM_EXEC_PAYLOAD_SECRET_ID"
"""The only environment variable that a task gets: the name of the secret with its payload."""

DESCRIPTORS_VARIABLE: Final = "TIMELOOM_DESCRIPTORS"
"""Names the folder with the descriptors for tools in a task; only the supervisor can read it."""

WORKSPACE: Final = "/workspace"
MAX_SENT: Final = SnapshotLimits(files=65_534, bytes=4 * 1024 * 1024 * 1024)
"""Largest folder that is sent to a task; S3 accepts 5 GB in one upload."""

BUNDLES: Final = f"{WORKSPACE}/bundles"

VERSION: Final = 3
"""Version of payload and report; a task whose image has another version refuses to start."""

MAX_SECRET_BYTES: Final = 65_536
"""Capacity of one secret in Secrets Manager."""

MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
"""Largest uncompressed payload. A smaller limit refuses descriptors that compress well; a larger one admits a zip
bomb."""

MAX_REPORT_BYTES: Final = 64 * 1024 * 1024
"""Largest report; most of it can be the names of removed files."""


class ObjectRef(msgspec.Struct, frozen=True):
    """A reference to a bucket object by key and hash, so that write access to the bucket cannot replace its content."""

    key: str
    sha256: str

    def check_bytes(self, data: bytes) -> None:
        """Raise `ValueError` if the bytes do not match the hash."""
        self.check_digest(hashlib.sha256(data).hexdigest())

    def check_digest(self, sha256: str) -> None:
        """Raise `ValueError` if this is not the expected hash."""
        if sha256 != self.sha256:
            raise ValueError(f"{self.key.rpartition('/')[2]} was changed on its way")


class LaunchPayload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a remote supervisor needs for one execution; sent as a secret, since descriptors hold secrets."""

    execution_id: str
    name: str
    bucket: str
    base: str
    """Key prefix of this execution; it ends with a slash."""

    code: ObjectRef
    work: ObjectRef
    out: ObjectRef
    bundle: ObjectRef | None = None
    bundle_dir: str = ""
    """The name of the bundle's folder in the task."""

    read_only: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    links: Mapping[str, str] = {}
    stubs: tuple[ToolStub, ...] = ()
    limits: ExecutionLimits = ExecutionLimits()
    leave: CallDelegation = CallDelegation()
    env: Mapping[str, str] = {}
    """Environment variables of the supervisor; the program sees none of them."""

    descriptors: Mapping[str, str] = {}
    active_bundle: str = ""
    """The bundle whose settings and secrets the tools in the task read; empty without one."""

    tool_modules: tuple[str, ...] = ()
    poll_s: float = 1.0
    uid: int = 1001
    version: int = VERSION


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended in its task, and which files the caller must take over."""

    ending: ExitReason
    exit_code: int
    stdout_tail: str = ""
    stderr_tail: str = ""
    used: ProgramUsage = ProgramUsage()
    detail: str = ""
    changed: ObjectRef | None = None
    """A zip of the new and changed files."""

    removed: tuple[str, ...] = ()
    """Sent files that no longer exist."""

    version: int = VERSION


def result_limits(limits: ExecutionLimits, sent: int) -> SnapshotLimits:
    """Return the limits of the returned files: all that may be written, plus every sent file in a changed form."""
    return SnapshotLimits(sent + limits.growth_files, limits.growth_bytes + sent * limits.file_bytes)


def report_key(base: str) -> str:
    """Return the key of the report of an execution."""
    return f"{base}report.json"


def encode_launch(launch: LaunchPayload) -> bytes:
    """Encode the launch as a secret; raise `ValueError` if it does not fit into one."""
    data = zlib.compress(msgspec.json.encode(launch), 9)
    if len(data) > MAX_SECRET_BYTES:
        largest = max(launch.descriptors, key=lambda name: len(launch.descriptors[name]), default="the tool stubs")
        raise ValueError(
            f"the payload of the launch has {len(data)} bytes compressed, and a secret holds {MAX_SECRET_BYTES}; the "
            f"largest part is {largest}: set execution.runtime.descriptor_payload_scope to active_bundle"
        )
    return data


def decode_launch(data: bytes) -> LaunchPayload:
    """Decode the launch from a secret; raise `ValueError` if it is invalid."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, MAX_PAYLOAD_BYTES)
    except zlib.error as error:
        raise ValueError(f"the payload of the launch cannot be unpacked: {error}") from None
    if not unpacking.eof:
        raise ValueError(f"the payload of the launch is cut, or has more than {MAX_PAYLOAD_BYTES} bytes")
    launch = msgspec.json.decode(text, type=LaunchPayload)
    if launch.version != VERSION:
        raise ValueError(f"the payload has version {launch.version}, and this image is for {VERSION}; build it again")
    return launch


def decode_report(data: bytes) -> TaskReport:
    """Decode the report; raise `ValueError` if it is invalid."""
    return msgspec.json.decode(data, type=TaskReport)
