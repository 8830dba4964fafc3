"""LangGraph's development server, which needs no key, in the benchmark-only environment.

It runs as a program with a folder and the address of a model, and prints its address. It makes no outside connections:
no tracing, no version check, and no key for usage reports.
"""

import importlib
import os
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, TextIO

Foreign = Any
"""A value of another runtime, whose types are not available to the type checker."""

GRAPH = Path(__file__).resolve().with_name("langgraph_graph.py")

JOBS = 1000
"""Concurrent runs; more than there are streams, so that none waits for another."""

KEYS = ("LANGCHAIN_API_KEY", "LANGGRAPH_CLOUD_LICENSE_KEY", "LANGSMITH_API_KEY", "LANGSMITH_CONTROL_PLANE_API_KEY")


def main() -> None:
    """Serve until the process is terminated."""
    folder, model_url = Path(sys.argv[1]), sys.argv[2]
    # The library logs to standard output, which is reserved for the address.
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for key in KEYS:
        os.environ.pop(key, None)
    os.environ |= {
        "BENCH_FOLDER": str(folder),
        "BENCH_MODEL_URL": f"{model_url}/v1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "LANGSMITH_TRACING": "false",
        "LOG_LEVEL": "ERROR",
    }
    # The library writes files to its working directory.
    os.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    threading.Thread(target=_say_when_ready, args=(f"http://127.0.0.1:{port}", said), daemon=True).start()
    command: Foreign = importlib.import_module("langgraph_api.cli")
    command.run_server(
        port=port,
        graphs={"bench": f"{GRAPH}:graph"},
        checkpointer={"backend": "custom", "path": f"{GRAPH}:make_saver"},
        n_jobs_per_worker=JOBS,
        # Without its monitor of blocking calls, and without its files, which it writes every ten seconds.
        allow_blocking=True,
        disable_persistence=True,
    )


def _say_when_ready(url: str, said: TextIO) -> None:
    while True:
        time.sleep(0.05)
        try:
            with urllib.request.urlopen(f"{url}/ok"):
                break
        except OSError:
            continue
    print(f"serving on {url}", file=said, flush=True)


if __name__ == "__main__":
    main()
