"""Supervises a task: reads its launch payload, runs the program in confinement, and uploads the report."""

import asyncio
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.paths.names import check_name
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import Program, Ran
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.guest import BOOTSTRAP
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.bucket_messages import Mailbox
from timeloom.sandbox.remote.cloud import Cloud, CloudError
from timeloom.sandbox.remote.drop_privileges import Cell
from timeloom.sandbox.remote.executor import NotStartedError, execute
from timeloom.sandbox.remote.launch_payload import (
    DESCRIPTORS_VARIABLE,
    SENT,
    WORKSPACE,
    Launch,
    Parcel,
    Report,
    report_key,
    room_for,
    unsealed,
)
from timeloom.sandbox.remote.relay import Relay
from timeloom.sandbox.remote.snapshot import Packed, digest, pack, unpack
from timeloom.sandbox.remote.tool_loader import Toolbox, ToolModuleError, load_tools

_MAX_CODE_BYTES: Final = 16 * 1024 * 1024
_PRIVATE: Final = 0o700
_PASSABLE: Final = 0o711
_NOT_RUN: Final = 126
_SHOWN_LEFT: Final = 10

_logger = logging.getLogger(__name__)


class _Secret(msgspec.Struct, frozen=True, rename="pascal"):
    secret_binary: bytes


@dataclass(frozen=True, slots=True)
class Task:
    """The environment of a remote supervisor."""

    cloud: Cloud
    ids: Ids
    clock: Clock
    root: Path = Path(WORKSPACE)

    @property
    def own(self) -> Path:
        """The supervisor's folder, which the program cannot enter."""
        return self.root / "supervisor"


async def supervise(secret_id: str, task: Task) -> None:
    """Run the launch in the secret; a failure after the secret was read is recorded in the report."""
    launch = await asyncio.to_thread(_read, task.cloud, secret_id)
    bucket = Bucket(task.cloud, launch.bucket)
    try:
        report = await _carried_out(launch, bucket, task)
    except (CloudError, NotStartedError, ToolModuleError, ValueError, OSError) as error:
        _logger.exception("could not run the program or return its files")
        report = Report(ending="killed", exit_code=_NOT_RUN, detail=str(error) or type(error).__name__)
    await asyncio.to_thread(bucket.put, report_key(launch.base), msgspec.json.encode(report))


def _read(cloud: Cloud, secret_id: str) -> Launch:
    found = cloud.call("secretsmanager", "get_secret_value", {"SecretId": secret_id})
    return unsealed(msgspec.convert(found, _Secret).secret_binary)


async def _carried_out(launch: Launch, bucket: Bucket, task: Task) -> Report:
    if os.geteuid() != 0:
        raise NotStartedError("the supervisor is not root, so it cannot give a program another user")
    run = RunFolder(task.root)
    sent = await asyncio.to_thread(_prepared, launch, bucket, task, run)
    tools = load_tools(_places(launch, task))
    toolbox = Toolbox(tools, launch.leave, run.out, task.clock)
    code = await asyncio.to_thread(_code, launch, bucket)
    program = Program(
        code=code, execution_id=launch.execution_id, name=launch.name, stubs=launch.stubs, limits=launch.limits
    )
    mailbox = Mailbox(bucket, f"{launch.base}up/", f"{launch.base}down/")
    relay = Relay(mailbox, toolbox, launch.poll_s)
    carrying = asyncio.create_task(relay.carry())
    try:
        token = f"{task.ids.bits():016x}{task.ids.bits():016x}"
        ran = await execute(_cell(launch, run), run, program, relay, relay.output, token)
        await mailbox.flush()
    finally:
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)
    return await asyncio.to_thread(_reported, ran, sent, launch, bucket, task)


def _prepared(launch: Launch, bucket: Bucket, task: Task, run: RunFolder) -> dict[str, str]:
    """Create and fill the folders; return the hashes of the files in the program's `out`."""
    os.umask(0o022)
    task.root.chmod(_PASSABLE)
    for folder in (task.own, run.work, run.out, task.root / "bundles"):
        folder.mkdir(mode=_PRIVATE)
    run.sock.mkdir(mode=_PASSABLE)
    shutil.copyfile(BOOTSTRAP, run.sock / "bootstrap.py")
    (run.sock / "bootstrap.py").chmod(0o644)
    _describe(launch, task)
    if launch.bundle is not None:
        check_name(launch.bundle_dir)
        folder = task.root / "bundles" / launch.bundle_dir
        folder.mkdir(mode=_PRIVATE)
        _fetched(bucket, launch.bundle, task, folder, None)
    _fetched(bucket, launch.work, task, run.work, launch.uid)
    sent = _fetched(bucket, launch.out, task, run.out, launch.uid)
    for folder in (run.work, run.out):
        os.chown(folder, launch.uid, launch.uid)
    return sent


def _describe(launch: Launch, task: Task) -> None:
    """Write the descriptors where tools look for them, and set the variables of the launch."""
    folder = task.own / "descriptors"
    folder.mkdir(mode=_PRIVATE)
    for name, text in launch.descriptors.items():
        if "/" in name or name.startswith("."):
            raise ValueError(f"the name of a descriptor is no plain file name: {name!a}")
        with os.fdopen(os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
    os.environ.update(launch.env)
    os.environ[DESCRIPTORS_VARIABLE] = str(folder)


def _fetched(bucket: Bucket, parcel: Parcel, task: Task, folder: Path, uid: int | None) -> dict[str, str]:
    """Download and unpack a snapshot; return the hashes of its files."""
    place = task.own / f"{folder.name}.zip"
    if not bucket.get_file(parcel.key, place, SENT.bytes):
        raise ValueError(f"the snapshot of {folder.name} is not in the bucket")
    with place.open("rb") as file:
        parcel.check_digest(digest(file))
    found = unpack(place, folder, SENT, uid=uid)
    place.unlink()
    return found


def _places(launch: Launch, task: Task) -> list[Path]:
    """Return the tool modules; raise `ValueError` if one is not below the bundles folder."""
    bundles = task.root / "bundles"
    places = [task.root / Path(each).relative_to(WORKSPACE) for each in launch.tool_modules]
    if any(not place.resolve().is_relative_to(bundles.resolve()) for place in places):
        raise ValueError("a module of tools is not among the bundle's code")
    return places


def _code(launch: Launch, bucket: Bucket) -> str:
    data = bucket.get(launch.code.key, _MAX_CODE_BYTES)
    if data is None:
        raise ValueError("the program is not in the bucket")
    launch.code.check(data)
    return data.decode("utf-8", "surrogatepass")


def _cell(launch: Launch, run: RunFolder) -> Cell:
    return Cell(
        uid=launch.uid,
        work=str(run.work),
        out=str(run.out),
        bootstrap=str(run.sock / "bootstrap.py"),
        socket=str(run.sock / "door"),
        limits=launch.limits,
    )


def _reported(ran: Ran, sent: dict[str, str], launch: Launch, bucket: Bucket, task: Task) -> Report:
    """Upload the files that are new or changed and return the report."""
    place = task.own / "changed.zip"
    packed = pack(ran.out_dir, place, room_for(launch.limits, len(sent)), known=sent)
    changed = None
    if packed.written:
        with place.open("rb") as file:
            changed = Parcel(f"{launch.base}changed.zip", digest(file))
        bucket.put_file(changed.key, place)
    removed = tuple(name for name in sent if name not in packed.files)
    return Report(
        ending=ran.ending,
        exit_code=ran.exit_code,
        stdout_tail=ran.stdout_tail,
        stderr_tail=ran.stderr_tail,
        used=ran.used,
        detail="; ".join(filter(None, (ran.detail, _left(packed)))),
        changed=changed,
        removed=removed,
    )


def _left(packed: Packed) -> str:
    if not packed.left:
        return ""
    shown = ", ".join(packed.left[:_SHOWN_LEFT])
    more = len(packed.left) - _SHOWN_LEFT
    return f"not brought back: {shown}" + (f" and {more} more" if more > 0 else "")
