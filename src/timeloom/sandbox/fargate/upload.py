"""Uploads the program, its folders and the bundle for a task to the bucket."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import Program
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.fargate.scoped_settings import add_bundle, scoped
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.launch_payload import BUNDLES, MAX_SENT, LaunchPayload, ObjectRef
from timeloom.sandbox.remote.snapshot import PackResult, SnapshotError, hash_stream, pack

SKIPPED: Final = frozenset({"__pycache__", ".git", ".venv", "node_modules"})
"""Folders of a bundle that no tool needs in a task."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UploadedLaunch:
    """The launch payload, and the names of the program's uploaded files."""

    launch: LaunchPayload
    file_names: tuple[str, ...]


def upload_launch(
    program: Program, profile: FargateProfile, run: RunFolder, bucket: Bucket, base: str
) -> UploadedLaunch:
    """Upload the program, its folders and the bundle's code, and return the launch payload."""
    code = program.code.encode("utf-8", "surrogatepass")
    bucket.put(f"{base}program.py", code)
    work, _ = _upload_folder(run.work, run, bucket, base)
    out, packed = _upload_folder(run.out, run, bucket, base)
    if packed.left_out:
        raise SnapshotError(f"not all files of the program can be sent: {', '.join(packed.left_out[:10])}")
    launch = LaunchPayload(
        execution_id=program.execution_id,
        name=program.name,
        bucket=bucket.name,
        base=base,
        code=ObjectRef(f"{base}program.py", hashlib.sha256(code).hexdigest()),
        work=work,
        out=out,
        bundle=_upload_bundle(profile, run, bucket, base),
        bundle_dir=profile.bundle.name if profile.bundle else "",
        read_only=program.read_only,
        folders=program.folders,
        links=program.links,
        stubs=program.stubs,
        limits=program.limits,
        leave=program.leave,
        env=profile.env,
        descriptors=_select_descriptors(program, profile),
        active_bundle=program.bundle if profile.tool_modules else "",
        tool_modules=tuple(task_module_path(each, profile.bundle) for each in profile.tool_modules),
        poll_s=profile.poll_s,
        uid=profile.uid,
    )
    return UploadedLaunch(launch, tuple(packed.files))


def _select_descriptors(program: Program, profile: FargateProfile) -> Mapping[str, str]:
    """Return the descriptors for the task: those of the active bundle only if tools run there."""
    if not program.bundle or not profile.tool_modules:
        return profile.descriptors
    return scoped(
        add_bundle(profile.descriptors, program.make_descriptors()), profile.descriptor_payload_scope, program.bundle
    )


def task_module_path(module: Path, bundle: Path | None) -> str:
    """Return a bundle module's path in the task; raise `ValueError` if it is outside of the bundle."""
    if bundle is None or not module.is_relative_to(bundle) or ".." in module.parts:
        raise ValueError(f"the module of tools {module.name!a} is not in the bundle's folder, so no task would have it")
    return f"{BUNDLES}/{bundle.name}/{module.relative_to(bundle).as_posix()}"


def _upload_bundle(profile: FargateProfile, run: RunFolder, bucket: Bucket, base: str) -> ObjectRef | None:
    if profile.bundle is None:
        return None
    ref, packed = _upload_folder(profile.bundle, run, bucket, base, "bundle")
    if packed.left_out:
        _logger.warning("files of the bundle that are not sent to the task: %s", ", ".join(packed.left_out[:10]))
    return ref


def _upload_folder(
    folder: Path, run: RunFolder, bucket: Bucket, base: str, name: str = ""
) -> tuple[ObjectRef, PackResult]:
    archive = run.path / f"{name or folder.name}.zip"
    packed = pack(folder, archive, MAX_SENT, skipped=SKIPPED if name else frozenset())
    ref = ObjectRef(f"{base}{archive.name}", _hash_file(archive))
    bucket.put_file(ref.key, archive)
    archive.unlink()
    return ref, packed


def _hash_file(archive: Path) -> str:
    with archive.open("rb") as file:
        return hash_stream(file)
