"""Tests of the container sandbox; those in `engine/` need an engine, which `make test-docker` starts."""

import os

collect_ignore = [] if os.environ.get("TIMELOOM_DOCKER_SOCKET") else ["engine"]
