"""The agent of LangGraph's server, which loads this file by path: one model, and checkpoints in SQLite."""

import importlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

Foreign = Any
"""A value of another runtime, whose types are not available to the type checker."""

_chat: Foreign = importlib.import_module("langchain_openai")
_graphs: Foreign = importlib.import_module("langgraph.graph")
_sqlite: Foreign = importlib.import_module("aiosqlite")
_savers: Foreign = importlib.import_module("langgraph.checkpoint.sqlite.aio")


class LangGraphState(TypedDict):
    """The state of a conversation."""

    messages: Annotated[list[Foreign], _graphs.add_messages]


async def ask(state: LangGraphState) -> dict[str, list[Foreign]]:
    """Call the model; the server streams its reply."""
    return {"messages": [await _model.ainvoke(state["messages"])]}


@asynccontextmanager
async def make_saver() -> AsyncGenerator[Foreign]:
    """Open a saver with the settings of timeloom: WAL, and every commit synced before it is acknowledged."""
    async with _sqlite.connect(Path(os.environ["BENCH_FOLDER"]) / "checkpoints.db") as connection:
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute("PRAGMA synchronous = FULL")
        yield _savers.AsyncSqliteSaver(connection)


_model: Foreign = _chat.ChatOpenAI(model="bench", base_url=os.environ["BENCH_MODEL_URL"], api_key="none")
_builder: Foreign = _graphs.StateGraph(LangGraphState)
_builder.add_node("model", ask)
_builder.add_edge(_graphs.START, "model")
_builder.add_edge("model", _graphs.END)
graph: Foreign = _builder.compile()
