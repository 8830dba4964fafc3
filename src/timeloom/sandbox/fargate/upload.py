"""Uploads the program, its folders and the bundle for a task to the bucket."""

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import Program
from timeloom.sandbox.fargate.profile import FargateProfile
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.remote.bucket import Bucket
from timeloom.sandbox.remote.launch_payload import BUNDLES, SENT, Launch, Parcel
from timeloom.sandbox.remote.snapshot import Packed, SnapshotError, digest, pack

SKIPPED: Final = frozenset({"__pycache__", ".git", ".venv", "node_modules"})
"""Folders of a bundle that no tool needs in a task."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sent:
    """The launch payload, and the names of the program's uploaded files."""

    launch: Launch
    names: tuple[str, ...]


def send(program: Program, profile: FargateProfile, run: RunFolder, bucket: Bucket, base: str) -> Sent:
    """Upload the program, its folders and the bundle's code, and return the launch payload."""
    code = program.code.encode("utf-8", "surrogatepass")
    bucket.put(f"{base}program.py", code)
    work, _ = _parcel(run.work, run, bucket, base)
    out, packed = _parcel(run.out, run, bucket, base)
    if packed.left:
        raise SnapshotError(f"not all files of the program can be sent: {', '.join(packed.left[:10])}")
    launch = Launch(
        execution_id=program.execution_id,
        name=program.name,
        bucket=bucket.name,
        base=base,
        code=Parcel(f"{base}program.py", hashlib.sha256(code).hexdigest()),
        work=work,
        out=out,
        bundle=_bundle(profile, run, bucket, base),
        bundle_dir=profile.bundle.name if profile.bundle else "",
        stubs=program.stubs,
        limits=program.limits,
        leave=program.leave,
        env=profile.env,
        descriptors=profile.descriptors,
        tool_modules=tuple(rewritten(each, profile.bundle) for each in profile.tool_modules),
        poll_s=profile.poll_s,
        uid=profile.uid,
    )
    return Sent(launch, tuple(packed.files))


def rewritten(module: Path, bundle: Path | None) -> str:
    """Return a bundle module's path in the task; raise `ValueError` if it is outside of the bundle."""
    if bundle is None or not module.is_relative_to(bundle) or ".." in module.parts:
        raise ValueError(f"the module of tools {module.name!a} is not in the bundle's folder, so no task would have it")
    return f"{BUNDLES}/{bundle.name}/{module.relative_to(bundle).as_posix()}"


def _bundle(profile: FargateProfile, run: RunFolder, bucket: Bucket, base: str) -> Parcel | None:
    if profile.bundle is None:
        return None
    parcel, packed = _parcel(profile.bundle, run, bucket, base, "bundle")
    if packed.left:
        _logger.warning("files of the bundle that are not sent to the task: %s", ", ".join(packed.left[:10]))
    return parcel


def _parcel(folder: Path, run: RunFolder, bucket: Bucket, base: str, name: str = "") -> tuple[Parcel, Packed]:
    place = run.path / f"{name or folder.name}.zip"
    packed = pack(folder, place, SENT, skipped=SKIPPED if name else frozenset())
    parcel = Parcel(f"{base}{place.name}", _digest(place))
    bucket.put_file(parcel.key, place)
    place.unlink()
    return parcel, packed


def _digest(place: Path) -> str:
    with place.open("rb") as file:
        return digest(file)
