"""Agno's server in the benchmark-only environment: an AgentOS with one agent, stored in SQLite.

It runs as a program with a folder and the address of a model, and prints its address. Modules are imported by name
because no other environment has them.
"""

import importlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

Foreign = Any
"""A value of another runtime, whose types are not available to the type checker."""


def main() -> None:
    """Serve until the process is terminated."""
    folder, model_url = Path(sys.argv[1]), sys.argv[2]
    # The library logs to standard output, which is reserved for the address.
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    agents: Foreign = importlib.import_module("agno.agent")
    databases: Foreign = importlib.import_module("agno.db.sqlite")
    models: Foreign = importlib.import_module("agno.models.openai.like")
    servers: Foreign = importlib.import_module("agno.os")
    uvicorn: Foreign = importlib.import_module("uvicorn")
    database = databases.SqliteDb(db_file=str(folder / "agno.db"))
    agent = agents.Agent(
        id="bench",
        model=models.OpenAILike(id="bench", base_url=f"{model_url}/v1", api_key="none"),
        db=database,
        add_history_to_context=True,
        telemetry=False,
    )
    app = servers.AgentOS(agents=[agent], db=database, telemetry=False, tracing=False).get_app()
    config = uvicorn.Config(app, log_config=None, access_log=False)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        # As uvicorn sets it on its own sockets.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"serving on http://127.0.0.1:{listener.getsockname()[1]}", file=said, flush=True)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
