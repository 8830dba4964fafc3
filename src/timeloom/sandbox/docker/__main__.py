"""`python -m timeloom.sandbox.docker` builds the image that programs run in."""

import argparse
import asyncio
import sys
from pathlib import Path

from timeloom.core.codes import CodedError
from timeloom.sandbox.docker.engine import Engine, EngineError
from timeloom.sandbox.docker.image import LIBRARIES, SCRATCH, build_image
from timeloom.sandbox.docker.profile import DEFAULT_IMAGE, DockerProfile


def main() -> int:
    """Builds the image as the command line says; 0, or 1 where the engine could not."""
    parser = argparse.ArgumentParser(prog="python -m timeloom.sandbox.docker", description=__doc__)
    parser.add_argument(
        "--socket", default="", help="the engine's socket; DOCKER_HOST, then Docker's own, if not given"
    )
    parser.add_argument("--tag", default=DEFAULT_IMAGE, help="what the image is called (%(default)s)")
    parser.add_argument(
        "--base", default=SCRATCH, help="an image with a Python of its own (%(default)s: this machine's)"
    )
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="which Python of this machine")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="taken along if installed (%(default)s)")
    given = parser.parse_args()
    libraries = [name for name in given.libraries.split(",") if name]
    try:
        engine = Engine(DockerProfile(socket=given.socket).socket_path())
        said = asyncio.run(build_image(engine, given.tag, base=given.base, python=given.python, libraries=libraries))
    except (CodedError, EngineError) as error:
        sys.stderr.write(f"the image could not be built: {error}\n")
        return 1
    sys.stdout.write(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
