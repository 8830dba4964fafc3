"""The same loop on LangGraph, OpenAI Agents SDK and Pydantic AI, in the benchmark-only environment.

It runs as a program, reads one job as JSON from standard input and prints one answer as JSON. Modules are imported by
name because no other environment has them, and each side loads only its own.
"""

import asyncio
import importlib
import itertools
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypedDict

Foreign = Any
"""A value of another runtime, whose types are not available to the type checker."""

Turn = Callable[[str, str], Awaitable[None]]
"""Runs one turn of a conversation, given its name and the user's message."""

NO_ROUND_LIMIT = 1_000_000
"""For runtimes that bound the rounds of a turn."""


def main() -> None:
    """Execute the job on standard input."""
    job = json.load(sys.stdin)
    json.dump(asyncio.run(SIDES[job["side"]](job)), sys.stdout)


class RoundClock:
    """Measures turns and rounds: a round ends at the call of the tool, the last one with its turn."""

    def __init__(self) -> None:
        self.round_s: list[list[float]] = []
        self.cpu_s: list[float] = []
        self.imported_bytes = _peak_bytes()
        self._since = 0.0

    async def run(self, job: dict[str, Any], turn: Turn) -> dict[str, Any]:
        """Run all turns of the job and return the measurements; a turn of another conversation warms up first."""
        self.round_s.append([])
        await turn("warm-up", job["prompt"])
        self.round_s.clear()
        for _ in range(job["turns"]):
            self.round_s.append([])
            self._since, cpu = time.perf_counter(), time.process_time()
            await turn("bench", job["prompt"])
            self.end_round()
            self.cpu_s.append(time.process_time() - cpu)
            if len(self.round_s[-1]) != job["rounds"]:
                raise SystemExit(f"a turn had {len(self.round_s[-1])} rounds")
        return {
            "round_s": self.round_s,
            "cpu_s": self.cpu_s,
            "imported_bytes": self.imported_bytes,
            "peak_bytes": _peak_bytes(),
        }

    def end_round(self) -> None:
        """End the round and begin the next."""
        now = time.perf_counter()
        self.round_s[-1].append(now - self._since)
        self._since = now


async def run_langgraph(job: dict[str, Any]) -> dict[str, Any]:
    """Run a graph of a model and a tool node, each super-step in a checkpoint of SQLite.

    It uses `invoke`, which is quicker here than `ainvoke` with the asynchronous saver.
    """
    chat: Foreign = importlib.import_module("langchain_openai")
    messages: Foreign = importlib.import_module("langchain_core.messages")
    tools: Foreign = importlib.import_module("langchain_core.tools")
    graphs: Foreign = importlib.import_module("langgraph.graph")
    prebuilt: Foreign = importlib.import_module("langgraph.prebuilt")
    savers: Foreign = importlib.import_module("langgraph.checkpoint.sqlite")
    watch = RoundClock()

    def look(place: str) -> str:
        """Look at a place."""
        watch.end_round()
        return f"{place}\n{job['seen']}"

    tool = tools.tool(job["tool"])(look)
    model = chat.ChatOpenAI(model="bench", base_url=job["url"], api_key="none", max_retries=0).bind_tools([tool])
    system = messages.SystemMessage(job["system"])

    def ask(state: dict[str, list[Foreign]]) -> dict[str, list[Foreign]]:
        return {"messages": [model.invoke([system, *state["messages"]])]}

    class State(TypedDict):
        messages: Annotated[list[Foreign], graphs.add_messages]

    builder = graphs.StateGraph(State)
    builder.add_node("model", ask)
    builder.add_node("tools", prebuilt.ToolNode([tool]))
    builder.add_edge(graphs.START, "model")
    builder.add_conditional_edges("model", prebuilt.tools_condition)
    builder.add_edge("tools", "model")
    connection = _database(Path(job["folder"]) / "checkpoints.db")
    graph = builder.compile(checkpointer=savers.SqliteSaver(connection))

    async def turn(conversation: str, prompt: str) -> None:
        config = {"configurable": {"thread_id": conversation}, "recursion_limit": NO_ROUND_LIMIT}
        graph.invoke({"messages": [messages.HumanMessage(prompt)]}, config, durability=job["durability"])

    answer = await watch.run(job, turn)
    connection.close()
    return answer


async def run_agents(job: dict[str, Any]) -> dict[str, Any]:
    """Run OpenAI Agents SDK with its SQLite session and its chat completions model."""
    agents: Foreign = importlib.import_module("agents")
    openai: Foreign = importlib.import_module("openai")
    agents.set_tracing_disabled(True)
    watch = RoundClock()

    async def look(place: str) -> str:
        """Look at a place."""
        watch.end_round()
        return f"{place}\n{job['seen']}"

    client = openai.AsyncOpenAI(base_url=job["url"], api_key="none", max_retries=0)
    agent = agents.Agent(
        name="bench",
        instructions=job["system"],
        model=agents.OpenAIChatCompletionsModel(model="bench", openai_client=client),
        tools=[agents.function_tool(look, name_override=job["tool"])],
    )
    database = Path(job["folder"]) / "session.db"
    sessions = {name: agents.SQLiteSession(name, database) for name in ("warm-up", "bench")}

    async def turn(conversation: str, prompt: str) -> None:
        await agents.Runner.run(agent, prompt, session=sessions[conversation], max_turns=NO_ROUND_LIMIT)

    answer = await watch.run(job, turn)
    for session in sessions.values():
        session.close()
    return answer


async def run_pydantic(job: dict[str, Any]) -> dict[str, Any]:
    """Run Pydantic AI, which keeps messages in memory and leaves storing them to its caller.

    With `stored`, every message goes to SQLite at once, as a separate row; otherwise it uses `run`, its quickest
    method.
    """
    pydantic_ai: Foreign = importlib.import_module("pydantic_ai")
    models: Foreign = importlib.import_module("pydantic_ai.models.openai")
    providers: Foreign = importlib.import_module("pydantic_ai.providers.openai")
    messages: Foreign = importlib.import_module("pydantic_ai.messages")
    watch = RoundClock()

    async def look(place: str) -> str:
        """Look at a place."""
        watch.end_round()
        return f"{place}\n{job['seen']}"

    provider = providers.OpenAIProvider(base_url=job["url"], api_key="none")
    agent = pydantic_ai.Agent(
        models.OpenAIChatModel("bench", provider=provider),
        instructions=job["system"],
        tools=[pydantic_ai.Tool(look, name=job["tool"])],
    )
    histories: dict[str, list[Foreign]] = {}
    limits = pydantic_ai.UsageLimits(request_limit=None)
    connection = _database(Path(job["folder"]) / "messages.db") if job["stored"] else None
    if connection:
        connection.execute("CREATE TABLE message (n INTEGER PRIMARY KEY, conversation TEXT, json BLOB)")

    def store(conversation: str, fresh: list[Foreign]) -> None:
        if connection and fresh:
            rows = [(conversation, messages.ModelMessagesTypeAdapter.dump_json([one])) for one in fresh]
            with connection:
                connection.executemany("INSERT INTO message (conversation, json) VALUES (?, ?)", rows)

    async def turn(conversation: str, prompt: str) -> None:
        history = histories.get(conversation, [])
        if not connection:
            done = await agent.run(prompt, message_history=history, usage_limits=limits)
            histories[conversation] = list(done.all_messages())
            return
        stored = len(history)
        async with agent.iter(prompt, message_history=history, usage_limits=limits) as run:
            async for _ in run:
                known = run.all_messages()
                store(conversation, known[stored:])
                stored = len(known)
            histories[conversation] = list(run.all_messages())

    answer = await watch.run(job, turn)
    if connection:
        connection.close()
    return answer


async def run_client(job: dict[str, Any]) -> dict[str, Any]:
    """Run OpenAI's client alone with another side's requests: the part that the three runtimes share."""
    openai: Foreign = importlib.import_module("openai")
    watch = RoundClock()
    client = openai.OpenAI(base_url=job["url"], api_key="none", max_retries=0)
    bodies = iter([json.loads(request["body"]) for request in job["requests"]])

    async def turn(_conversation: str, _prompt: str) -> None:
        for n, body in enumerate(itertools.islice(bodies, job["rounds"])):
            if n:
                watch.end_round()
            client.chat.completions.create(**body)

    return await watch.run(job, turn)


SIDES: dict[str, Callable[[dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]] = {
    "langgraph": run_langgraph,
    "agents": run_agents,
    "pydantic": run_pydantic,
    "client": run_client,
}


def _database(path: Path) -> sqlite3.Connection:
    """Open a database with the settings of timeloom: WAL, and every commit synced before it is acknowledged."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL").fetchall()
    return connection


def _peak_bytes() -> int:
    """Return the peak memory of this process; `getrusage` would include its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
