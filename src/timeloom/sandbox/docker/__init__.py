"""The container sandbox: programs in containers of a Docker-compatible engine, such as Docker's or Podman's."""

from timeloom.sandbox.docker.profile import ALLOWED_ARGS, DockerProfile, ProfileError
from timeloom.sandbox.docker.sandbox import DockerSandbox

__all__ = ["ALLOWED_ARGS", "DockerProfile", "DockerSandbox", "ProfileError"]
