"""A worker process that does what its request names, for the tests of the pool."""

import os
import time

from timeloom.platform.worker import serve_requests


def answer(request: bytes) -> bytes:
    name, _, rest = request.partition(b" ")
    match name:
        case b"pid":
            return str(os.getpid()).encode()
        case b"exit":
            os._exit(3)
        case b"raise":
            raise RuntimeError
        case b"memory":
            return b"x" * 1024**3
        case b"large":
            return b"x" * 20_000
        case b"hang":
            time.sleep(600)
        case b"print":
            print("noise", flush=True)
            return b"printed"
        case b"environment":
            return repr(dict(os.environ)).encode()
        case _:
            return rest
    return b""


if __name__ == "__main__":
    serve_requests(answer)
