"""Supervises a task: reads its launch payload, runs the program in confinement, and uploads the report."""

import asyncio
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.paths.names import check_name
from timeloom.platform.tasks import cancel_to_completion
from timeloom.ports.bundle_context import BundleContext
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import Program, ProgramResult
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.guest import BOOTSTRAP
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.bucket_messages import BucketChannel
from timeloom.sandbox.remote.cloud import Cloud, CloudError
from timeloom.sandbox.remote.descriptor_files import read_bundle_context
from timeloom.sandbox.remote.drop_privileges import ConfinementSpec
from timeloom.sandbox.remote.executor import NotStartedError, execute_program
from timeloom.sandbox.remote.launch_payload import (
    DESCRIPTORS_VARIABLE,
    MAX_SENT,
    WORKSPACE,
    LaunchPayload,
    ObjectRef,
    TaskReport,
    decode_launch,
    report_key,
    result_limits,
)
from timeloom.sandbox.remote.relay import TaskBroker
from timeloom.sandbox.remote.snapshot import PackResult, hash_stream, pack, unpack
from timeloom.sandbox.remote.tool_loader import TaskToolRunner, ToolModuleError, load_tools

_MAX_CODE_BYTES: Final = 16 * 1024 * 1024
_PRIVATE: Final = 0o700
_PASSABLE: Final = 0o711
_NOT_RUN: Final = 126
_SHOWN_LEFT: Final = 10

_logger = logging.getLogger(__name__)


class _SecretValue(msgspec.Struct, frozen=True, rename="pascal"):
    secret_binary: bytes


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """The environment of a remote supervisor."""

    cloud: Cloud
    ids: Ids
    clock: Clock
    root: Path = Path(WORKSPACE)

    @property
    def private_folder(self) -> Path:
        """The supervisor's folder, which the program cannot enter."""
        return self.root / "supervisor"


async def supervise(secret_id: str, task: TaskEnvironment) -> None:
    """Run the launch in the secret; a failure after the secret was read is recorded in the report."""
    launch = await asyncio.to_thread(_read_launch, task.cloud, secret_id)
    bucket = Bucket(task.cloud, launch.bucket)
    try:
        report = await _run_launch(launch, bucket, task)
    except (CloudError, NotStartedError, ToolModuleError, ValueError, OSError) as error:
        _logger.exception("could not run the program or return its files")
        report = TaskReport(ending="killed", exit_code=_NOT_RUN, detail=str(error) or type(error).__name__)
    await asyncio.to_thread(bucket.put, report_key(launch.base), msgspec.json.encode(report))


def _read_launch(cloud: Cloud, secret_id: str) -> LaunchPayload:
    found = cloud.call("secretsmanager", "get_secret_value", {"SecretId": secret_id})
    return decode_launch(msgspec.convert(found, _SecretValue).secret_binary)


async def _run_launch(launch: LaunchPayload, bucket: Bucket, task: TaskEnvironment) -> TaskReport:
    if os.geteuid() != 0:
        raise NotStartedError("the supervisor is not root, so it cannot give a program another user")
    run = RunFolder(task.root)
    sent = await asyncio.to_thread(_prepare_folders, launch, bucket, task, run)
    bundle = _read_bundle(launch, task)
    tools = load_tools(_tool_module_paths(launch, task), bundle)
    task_tools = TaskToolRunner(tools, launch.leave, run.out, task.clock, bundle)
    code = await asyncio.to_thread(_download_code, launch, bucket)
    program = Program(
        code=code,
        execution_id=launch.execution_id,
        name=launch.name,
        read_only=launch.read_only,
        folders=launch.folders,
        links=launch.links,
        stubs=launch.stubs,
        limits=launch.limits,
    )
    channel = BucketChannel(bucket, f"{launch.base}up/", f"{launch.base}down/")
    broker = TaskBroker(channel, task_tools, launch.poll_s)
    exchange = asyncio.create_task(broker.exchange_messages())
    try:
        token = f"{task.ids.bits():016x}{task.ids.bits():016x}"
        result = await execute_program(_confinement_spec(launch, run), run, program, broker, broker.output, token)
        await channel.flush()
    finally:
        await cancel_to_completion(exchange)
    return await asyncio.to_thread(_build_report, result, sent, launch, bucket, task)


def _prepare_folders(launch: LaunchPayload, bucket: Bucket, task: TaskEnvironment, run: RunFolder) -> dict[str, str]:
    """Create and fill the folders; return the hashes of the files in the program's `out`."""
    os.umask(0o022)
    task.root.chmod(_PASSABLE)
    for folder in (task.private_folder, run.work, run.out, task.root / "bundles"):
        folder.mkdir(mode=_PRIVATE)
    run.sock.mkdir(mode=_PASSABLE)
    shutil.copyfile(BOOTSTRAP, run.sock / "bootstrap.py")
    (run.sock / "bootstrap.py").chmod(0o644)
    _write_descriptors(launch, task)
    if launch.bundle is not None:
        check_name(launch.bundle_dir)
        folder = task.root / "bundles" / launch.bundle_dir
        folder.mkdir(mode=_PRIVATE)
        _download_snapshot(bucket, launch.bundle, task, folder, None)
    _download_snapshot(bucket, launch.work, task, run.work, launch.uid)
    sent = _download_snapshot(bucket, launch.out, task, run.out, launch.uid)
    for folder in (run.work, run.out):
        os.chown(folder, launch.uid, launch.uid)
    return sent


def _write_descriptors(launch: LaunchPayload, task: TaskEnvironment) -> None:
    """Write the descriptors where tools look for them, and set the variables of the launch."""
    folder = task.private_folder / "descriptors"
    folder.mkdir(mode=_PRIVATE)
    for name, text in launch.descriptors.items():
        if "/" in name or name.startswith("."):
            raise ValueError(f"the name of a descriptor is no plain file name: {name!a}")
        with os.fdopen(os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
    os.environ.update(launch.env)
    os.environ[DESCRIPTORS_VARIABLE] = str(folder)


def _read_bundle(launch: LaunchPayload, task: TaskEnvironment) -> BundleContext | None:
    if not launch.active_bundle:
        return None
    return read_bundle_context(launch.descriptors, launch.active_bundle, task.private_folder / "secrets")


def _download_snapshot(
    bucket: Bucket, ref: ObjectRef, task: TaskEnvironment, folder: Path, uid: int | None
) -> dict[str, str]:
    """Download and unpack a snapshot; return the hashes of its files."""
    archive = task.private_folder / f"{folder.name}.zip"
    if not bucket.get_file(ref.key, archive, MAX_SENT.bytes):
        raise ValueError(f"the snapshot of {folder.name} is not in the bucket")
    with archive.open("rb") as file:
        ref.check_digest(hash_stream(file))
    found = unpack(archive, folder, MAX_SENT, uid=uid)
    archive.unlink()
    return found


def _tool_module_paths(launch: LaunchPayload, task: TaskEnvironment) -> list[Path]:
    """Return the tool modules; raise `ValueError` if one is not below the bundles folder."""
    bundles = task.root / "bundles"
    places = [task.root / Path(each).relative_to(WORKSPACE) for each in launch.tool_modules]
    if any(not place.resolve().is_relative_to(bundles.resolve()) for place in places):
        raise ValueError("a module of tools is not among the bundle's code")
    return places


def _download_code(launch: LaunchPayload, bucket: Bucket) -> str:
    data = bucket.get(launch.code.key, _MAX_CODE_BYTES)
    if data is None:
        raise ValueError("the program is not in the bucket")
    launch.code.check_bytes(data)
    return data.decode("utf-8", "surrogatepass")


def _confinement_spec(launch: LaunchPayload, run: RunFolder) -> ConfinementSpec:
    return ConfinementSpec(
        uid=launch.uid,
        work=str(run.work),
        out=str(run.out),
        bootstrap=str(run.sock / "bootstrap.py"),
        socket=str(run.sock / "door"),
        limits=launch.limits,
    )


def _build_report(
    result: ProgramResult, sent: dict[str, str], launch: LaunchPayload, bucket: Bucket, task: TaskEnvironment
) -> TaskReport:
    """Upload the files that are new or changed and return the report."""
    _remove_links(result.out_dir, launch.links)
    archive = task.private_folder / "changed.zip"
    packed = pack(result.out_dir, archive, result_limits(launch.limits, len(sent)), known=sent)
    changed = None
    if packed.written:
        with archive.open("rb") as file:
            changed = ObjectRef(f"{launch.base}changed.zip", hash_stream(file))
        bucket.put_file(changed.key, archive)
    removed = tuple(name for name in sent if name not in packed.files)
    return TaskReport(
        ending=result.ending,
        exit_code=result.exit_code,
        stdout_tail=result.stdout_tail,
        stderr_tail=result.stderr_tail,
        used=result.used,
        detail="; ".join(filter(None, (result.detail, _left_out_text(packed)))),
        changed=changed,
        removed=removed,
    )


def _remove_links(folder: Path, links: Mapping[str, str]) -> None:
    """Remove the links that the program got, unless it replaced them; links are never sent back."""
    for name, target in links.items():
        link = folder / name
        if link.is_symlink() and str(link.readlink()) == target:
            link.unlink()


def _left_out_text(packed: PackResult) -> str:
    if not packed.left_out:
        return ""
    shown = ", ".join(packed.left_out[:_SHOWN_LEFT])
    more = len(packed.left_out) - _SHOWN_LEFT
    return f"not brought back: {shown}" + (f" and {more} more" if more > 0 else "")
