"""The payload of a launch and the report of its end: what a caller and its task tell each other."""

import hashlib
import zlib
from collections.abc import Mapping
from typing import Final

import msgspec

from timeloom.ports.sandbox import Ending, Leave, Limits, ToolStub, Used
from timeloom.sandbox.remote.snapshot import Room

PAYLOAD_VARIABLE: Final = "TIMELOOM_EXEC_PAYLOAD_SECRET_ID"
"""The one variable that a task is given: the name of the secret with its payload."""

DESCRIPTORS_VARIABLE: Final = "TIMELOOM_DESCRIPTORS"
"""Where tools in a task find the descriptors: a folder that only the supervisor can read."""

WORKSPACE: Final = "/workspace"
SENT: Final = Room(files=65_534, bytes=4 * 1024 * 1024 * 1024)
"""Most that a folder may hold which is sent to a task; S3 takes 5 GB at once."""

BUNDLES: Final = f"{WORKSPACE}/bundles"

VERSION: Final = 1
"""Of both forms; a task whose image was built with another one refuses to start."""

MAX_SECRET_BYTES: Final = 65_536
"""What Secrets Manager holds in one secret."""

MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
"""What a payload may be unpacked. Smaller refuses descriptors that compress well; larger is a bomb."""

MAX_REPORT_BYTES: Final = 64 * 1024 * 1024
"""What a report may have; the longest part of it is the names of files that were removed."""


class Parcel(msgspec.Struct, frozen=True):
    """An object of the bucket, by its key, and what it must be: nobody who can only write there can replace it."""

    key: str
    sha256: str

    def check(self, data: bytes) -> None:
        """Raises `ValueError` where these are not its bytes."""
        self.check_digest(hashlib.sha256(data).hexdigest())

    def check_digest(self, sha256: str) -> None:
        """The same, for bytes that were hashed already."""
        if sha256 != self.sha256:
            raise ValueError(f"{self.key.rpartition('/')[2]} was changed on its way")


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a remote supervisor needs for one execution; it travels as a secret, since descriptors hold secrets."""

    execution_id: str
    name: str
    bucket: str
    base: str
    """How the keys of this execution begin; it ends with a slash."""

    code: Parcel
    work: Parcel
    out: Parcel
    bundle: Parcel | None = None
    bundle_dir: str = ""
    """The name of the bundle's folder in the task."""

    stubs: tuple[ToolStub, ...] = ()
    limits: Limits = Limits()
    leave: Leave = Leave()
    env: Mapping[str, str] = {}
    """Variables of the supervisor; the program sees none of them."""

    descriptors: Mapping[str, str] = {}
    tool_modules: tuple[str, ...] = ()
    poll_s: float = 1.0
    uid: int = 1001
    version: int = VERSION


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended in its task, and what of its folder is to be taken over."""

    ending: Ending
    exit_code: int
    stdout_tail: str = ""
    stderr_tail: str = ""
    used: Used = Used()
    detail: str = ""
    changed: Parcel | None = None
    """A zip of the files that are new or other than they were sent."""

    removed: tuple[str, ...] = ()
    """Files that were sent and are not there any more."""

    version: int = VERSION


def room_for(limits: Limits, sent: int) -> Room:
    """What may be brought back: as much as may be written, and each file that was sent in a changed form."""
    return Room(sent + limits.growth_files, limits.growth_bytes + sent * limits.file_bytes)


def report_key(base: str) -> str:
    """Where the report of an execution is."""
    return f"{base}report.json"


def sealed(launch: Launch) -> bytes:
    """The launch as a secret holds it; raises `ValueError` where no secret is large enough."""
    data = zlib.compress(msgspec.json.encode(launch), 9)
    if len(data) > MAX_SECRET_BYTES:
        largest = max(launch.descriptors, key=lambda name: len(launch.descriptors[name]), default="the tool stubs")
        raise ValueError(
            f"the payload of the launch has {len(data)} bytes compressed, and a secret holds {MAX_SECRET_BYTES}; the "
            f"largest part is {largest}: set execution.runtime.descriptor_payload_scope to active_bundle"
        )
    return data


def unsealed(data: bytes) -> Launch:
    """The launch that a secret holds; raises `ValueError`."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, MAX_PAYLOAD_BYTES)
    except zlib.error as error:
        raise ValueError(f"the payload of the launch cannot be unpacked: {error}") from None
    if not unpacking.eof:
        raise ValueError(f"the payload of the launch is cut, or has more than {MAX_PAYLOAD_BYTES} bytes")
    launch = msgspec.json.decode(text, type=Launch)
    if launch.version != VERSION:
        raise ValueError(f"the payload has version {launch.version}, and this image is for {VERSION}; build it again")
    return launch


def read_report(data: bytes) -> Report:
    """The report; raises `ValueError`."""
    return msgspec.json.decode(data, type=Report)
