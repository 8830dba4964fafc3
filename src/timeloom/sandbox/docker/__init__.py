"""The Docker sandbox: runs programs in containers of a Docker-compatible engine, such as Docker or Podman.

In reading order: `profile`, `sandbox`, `engine`, `users`, `container_spec`, `worker`, `execution`, `identity`,
`cgroup`, `cleanup`, `image`. `guest` runs inside a container.
"""

from timeloom.sandbox.docker.profile import ALLOWED_ARGS, DockerProfile, ProfileError
from timeloom.sandbox.docker.sandbox import DockerSandbox

__all__ = ["ALLOWED_ARGS", "DockerProfile", "DockerSandbox", "ProfileError"]
