"""The loop of a worker process: reads requests from standard input and writes answers to standard output.

A frame is four bytes with the length, then the content. The module of a worker calls `serve_requests(function)`.
"""

import os
import resource
import struct
import sys
from collections.abc import Callable
from typing import Final

LENGTH: Final = struct.Struct(">I")

MEMORY_VARIABLE: Final = "TIMELOOM_WORKER_MEMORY_BYTES"
"""The largest address space of the worker, set by the process that started it."""


def serve_requests(function: Callable[[bytes], bytes]) -> None:
    """Answer each request with the function until standard input ends; an exception ends the process."""
    # Prints of a library must not become frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if limit := int(os.environ.get(MEMORY_VARIABLE, "0")):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests = sys.stdin.buffer
    while head := requests.read(LENGTH.size):
        answer = function(requests.read(*LENGTH.unpack(head)))
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()
