"""Builds the image that programs run in: `python -P -m timeloom.sandbox.docker`."""

import argparse
import asyncio
import sys
from pathlib import Path

from timeloom.core.codes import CodedError
from timeloom.sandbox.docker.engine import ContainerEngine, EngineError
from timeloom.sandbox.docker.image import LIBRARIES, SCRATCH, build_image
from timeloom.sandbox.docker.profile import DEFAULT_IMAGE, DockerProfile


def main() -> int:
    """Build the image with the options of the command line; return 0, or 1 if the build failed."""
    parser = argparse.ArgumentParser(prog="python -P -m timeloom.sandbox.docker", description=__doc__)
    parser.add_argument(
        "--socket", default="", help="socket of the container engine (default: DOCKER_HOST, then /var/run/docker.sock)"
    )
    parser.add_argument("--tag", default=DEFAULT_IMAGE, help="name of the image (default: %(default)s)")
    parser.add_argument(
        "--base", default=SCRATCH, help="base image with Python (default: %(default)s, with this machine's Python)"
    )
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="Python interpreter to copy into the image"
    )
    parser.add_argument(
        "--libraries", default=",".join(LIBRARIES), help="packages to copy if installed (default: %(default)s)"
    )
    given = parser.parse_args()
    libraries = [name for name in given.libraries.split(",") if name]
    try:
        engine = ContainerEngine(DockerProfile(socket=given.socket).socket_path())
        build_log = asyncio.run(
            build_image(engine, given.tag, base=given.base, python=given.python, libraries=libraries)
        )
    except (CodedError, EngineError) as error:
        sys.stderr.write(f"could not build the image: {error}\n")
        return 1
    sys.stdout.write(build_log)
    return 0


if __name__ == "__main__":
    sys.exit(main())
