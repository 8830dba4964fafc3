"""LangGraph with its SqliteSaver, run in the benchmark-only environment.

It runs as a program, reads one job as JSON from standard input and prints one answer as JSON. Only the standard library
and LangGraph are installed; modules are imported by name because no other environment has them.
"""

import functools
import importlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

Foreign = Any
"""A value of LangGraph or LangChain, whose types are not available to the type checker."""

langchain_messages = importlib.import_module("langchain_core.messages")
channels = importlib.import_module("langgraph.channels")
graphs = importlib.import_module("langgraph.graph")
checkpoints = importlib.import_module("langgraph.checkpoint.base")
savers = importlib.import_module("langgraph.checkpoint.sqlite")
add_messages: Foreign = graphs.add_messages

SYNCHRONOUS = "FULL"
"""As in timeloom: every commit reaches the disk before it is acknowledged."""


def main() -> None:
    """Execute the job on standard input."""
    job = json.load(sys.stdin)
    folder = Path(job["folder"])
    match job["what"]:
        case "replay":
            answer = replay(folder, job["traces"], job["mode"])
        case "load":
            answer = load(folder, job["traces"][0], job["repeats"])
        case other:
            raise SystemExit(f"no such job: {other}")
    json.dump(answer, sys.stdout)


def replay(folder: Path, traces: Sequence[dict[str, Any]], mode: str) -> dict[str, Any]:
    """Run every trace as a separate thread and return the measurements."""
    threads = [(trace["name"], [[_messages(step) for step in turn] for turn in trace["turns"]]) for trace in traces]
    written = _written_bytes()
    started = time.perf_counter()
    saver = _open(folder)
    replayer = (
        _CheckpointWriter(saver)
        if mode == "put"
        else _GraphReplayer(saver, _DeltaMessagesState if mode == "delta" else _MessagesState)
    )
    for thread, turns in threads:
        for steps in turns:
            replayer.turn(thread, steps)
    pragmas = _pragmas(saver.conn)
    saver.conn.close()
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "written_bytes": _written_bytes() - written,
        "step_seconds": replayer.watch.all_s,
        "pragmas": pragmas,
    }


def load(folder: Path, trace: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Store all messages of a trace with one write and measure opening and reading them."""
    messages = [message for turn in trace["turns"] for step in turn for message in _messages(step)]
    saver = _open(folder)
    config = {"configurable": {"thread_id": trace["name"]}}
    _GraphReplayer(saver, _MessagesState).graph.update_state(config, {"messages": messages}, as_node="step")
    saver.conn.close()
    seconds: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        saver = _open(folder)
        values = _GraphReplayer(saver, _MessagesState).graph.get_state(config).values
        seconds.append(time.perf_counter() - started)
        assert len(values["messages"]) == len(messages)
        saver.conn.close()
    return {"messages": len(messages), "seconds": seconds}


class _MessagesState(TypedDict):
    """The state of a LangGraph agent."""

    messages: Annotated[list[Foreign], add_messages]


def _add_all(state: list[Foreign], writes: Sequence[list[Foreign]]) -> list[Foreign]:
    return functools.reduce(add_messages, writes, state)


class _DeltaMessagesState(TypedDict):
    """The same state in the channel that stores differences, with its default snapshot interval."""

    messages: Annotated[list[Foreign], channels.DeltaChannel(_add_all)]


class _StepClock:
    """Measures the duration of steps."""

    def __init__(self) -> None:
        self.all_s: list[float] = []
        self._started: float | None = None

    def begin(self) -> None:
        """End the previous step and begin the next."""
        self.end()
        self._started = time.perf_counter()

    def end(self) -> None:
        """End the step."""
        if self._started is not None:
            self.all_s.append(time.perf_counter() - self._started)
        self._started = None


class _CheckpointWriter:
    """The saver without a graph: one checkpoint of all messages for each step."""

    def __init__(self, saver: Foreign) -> None:
        self.watch = _StepClock()
        self._saver = saver
        self._messages: dict[str, list[Foreign]] = {}
        self._configs: dict[str, Foreign] = {}

    def turn(self, thread: str, steps: Sequence[list[Foreign]]) -> None:
        """Put a checkpoint for each step."""
        messages = self._messages.setdefault(thread, [])
        config = self._configs.get(thread) or {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        for step in steps:
            messages += step
            self.watch.begin()
            checkpoint = {**checkpoints.empty_checkpoint(), "channel_values": {"messages": messages}}
            config = self._saver.put(config, checkpoint, {"source": "loop"}, {})
            self.watch.end()
        self._configs[thread] = config


class _GraphReplayer:
    """A graph whose single node emits the next step of the trace until the turn ends."""

    def __init__(self, saver: Foreign, state: type) -> None:
        self.watch = _StepClock()
        self._rest: Iterator[list[Foreign]] = iter(())
        self._next: list[Foreign] | None = None
        builder = graphs.StateGraph(state)
        builder.add_node("step", self._step)
        builder.add_conditional_edges(graphs.START, self._next_node, ["step", graphs.END])
        builder.add_conditional_edges("step", self._next_node, ["step", graphs.END])
        self.graph = builder.compile(checkpointer=saver)

    def turn(self, thread: str, steps: Sequence[list[Foreign]]) -> None:
        """Run one turn: its first step is the input, every further one is a super-step."""
        first, *rest = steps
        self._rest = iter(rest)
        self._next = next(self._rest, None)
        config = {"configurable": {"thread_id": thread}, "recursion_limit": len(steps) + 10}
        self.watch.begin()
        # Each super-step is durable before the next begins; the default may lose the last one.
        self.graph.invoke({"messages": first}, config, durability="sync")
        self.watch.end()

    def _step(self, _: dict[str, Foreign]) -> dict[str, list[Foreign] | None]:
        self.watch.begin()
        said, self._next = self._next, next(self._rest, None)
        return {"messages": said}

    def _next_node(self, _: dict[str, Foreign]) -> str:
        return graphs.END if self._next is None else "step"


def _open(folder: Path) -> Foreign:
    connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}").fetchall()
    saver = savers.SqliteSaver(connection)
    saver.setup()
    return saver


def _pragmas(connection: sqlite3.Connection) -> dict[str, str]:
    return {
        name: str(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("journal_mode", "synchronous", "wal_autocheckpoint")
    }


def _messages(step: Sequence[dict[str, Any]]) -> list[Foreign]:
    """Convert a step's events to the messages of LangGraph's agents: a model's reply is one message."""
    said: list[dict[str, str]] = []
    calls: list[dict[str, Any]] = []
    made: list[Foreign] = []
    for event in step:
        text: str = event["text"]
        match event["kind"]:
            case "thinking":
                said.append({"type": "thinking", "thinking": text})
            case "text":
                said.append({"type": "text", "text": text})
            case "call":
                calls.append({"name": event["tool"], "args": json.loads(text), "id": event["call_id"]})
            case "result":
                status = "error" if event.get("failed") else "success"
                made.append(langchain_messages.ToolMessage(text, tool_call_id=event["call_id"], status=status))
            case _:
                made.append(langchain_messages.HumanMessage(text))
    if said or calls:
        made.append(langchain_messages.AIMessage(said, tool_calls=calls, usage_metadata=_usage(step[-1])))
    return made


def _usage(event: dict[str, Any]) -> dict[str, int]:
    tokens: dict[str, int] = event.get("tokens", {})
    read = tokens.get("input", 0) + tokens.get("cache_read", 0) + tokens.get("cache_write", 0)
    output = tokens.get("output", 0)
    return {"input_tokens": read, "output_tokens": output, "total_tokens": read + output}


def _written_bytes() -> int:
    """Return the bytes that this process has written so far."""
    lines = Path(f"/proc/{os.getpid()}/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


if __name__ == "__main__":
    main()
