"""Counts the tokens of the system text: instructions, catalogue, and the whole of a small agent."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.context.tokenizer import CountTokens
from bench.loops import HEADER, answer_text
from bench.report import BenchTarget, Cell
from timeloom.app import AgentSettings, build_turn_runner
from timeloom.config.sandboxes import open_sandbox
from timeloom.config.sections.execution import ExecutionSettings
from timeloom.core.blocks import Usage
from timeloom.core.ids import ConversationId
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextPiece
from timeloom.ports.tool import Tool
from timeloom.runtime.session.session import Session
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.define import tool
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

MAX_INSTRUCTIONS_TOKENS: Final = 2_000
MAX_CATALOGUE_TOKENS: Final = 1_500
MAX_SMALL_TOKENS: Final = 1_800
"""The whole system text of an agent with three tools of its own and no react tools."""

CATALOGUE_TITLE: Final = "# Tools\n"


class SystemSizes(msgspec.Struct, frozen=True):
    """The tokens of the parts of an edition's system text."""

    edition: int
    instructions: int
    catalogue: int
    small: int

    def rows(self) -> list[tuple[Cell, ...]]:
        """Return the rows of the table."""
        return [
            (self.edition, name, tokens, limit, "met" if tokens <= limit else "MISSED")
            for name, tokens, limit in self._parts()
        ]

    def bars(self) -> list[BenchTarget]:
        """Return the bars."""
        return [
            BenchTarget(f"edition {self.edition}: tokens of the {name}", tokens, at_most=limit)
            for name, tokens, limit in self._parts()
        ]

    def _parts(self) -> tuple[tuple[str, int, int], ...]:
        return (
            ("instructions", self.instructions, MAX_INSTRUCTIONS_TOKENS),
            ("catalogue of react and exec tools", self.catalogue, MAX_CATALOGUE_TOKENS),
            ("whole system text with three own tools and no react tools", self.small, MAX_SMALL_TOKENS),
        )


def measure_system_texts(count: CountTokens, edition: int) -> SystemSizes:
    """Return the tokens of the default system text in two parts, and of the small agent's."""
    full = _sent_system_text([*react_tools(), ExecTool(open_sandbox(ExecutionSettings()))], edition)
    instructions, title, catalogue = full.partition(CATALOGUE_TITLE)
    small = _sent_system_text([weather, find_flights, send_message], edition)
    return SystemSizes(edition, count(instructions), count(title + catalogue), count(small))


def _sent_system_text(tools: Sequence[Tool], edition: int) -> str:
    """Return the system text of the request that a turn with these tools sends."""
    model = _SystemTextReader()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_run_turn(model, AgentSettings(data_dir=Path(folder), edition=edition), tools))
    return model.system


async def _run_turn(model: "_SystemTextReader", settings: AgentSettings, tools: Sequence[Tool]) -> None:
    async with await SqliteStore.open(settings.data_dir) as store:
        conversation = ConversationId("conv_system")
        async with await Session.start(store, conversation, HEADER, SystemClock(), RandomIds()) as session:
            await build_turn_runner(session, model, settings, lambda _: None, ToolRegistry(tools)).run("Hello.")


class _SystemTextReader:
    """A model that keeps the system text of its request and answers at once."""

    name = "bench:system"
    window_tokens = 200_000
    system = ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.system = request.system
        yield TextPiece(answer_text())
        yield FinishEvent("end", Usage(input_tokens=1, output_tokens=1), self.name)

    async def close(self) -> None:
        """Do nothing: no resource is open."""


@tool("own.weather", effect="pure")
async def weather(city: str, day: str = "today") -> str:
    """Return the weather of a city.

    Args:
        city: The name of the city.
        day: A date, or `today`.
    """
    return f"{city} {day}"


@tool("own.find_flights", effect="pure")
async def find_flights(origin: str, destination: str, date: str, seats: int = 1) -> str:
    """Return the flights of a day with free seats.

    Args:
        origin: The airport code of the departure.
        destination: The airport code of the arrival.
        date: The day of the departure.
        seats: The number of free seats.
    """
    return f"{origin} {destination} {date} {seats}"


@tool("own.send_message", effect="irreversible")
async def send_message(to: str, text: str) -> str:
    """Send a message to a customer.

    Args:
        to: The customer's address.
        text: The message.
    """
    return f"{to} {text}"
