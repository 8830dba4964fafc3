"""Counts the tokens of the system text: instructions, catalogue, and the whole of a small agent."""

from typing import Final

import msgspec

from bench.context.tokenizer import CountTokens
from bench.report import BenchTarget, Cell
from timeloom.config.sandboxes import open_sandbox
from timeloom.config.sections.execution import ExecutionSettings
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.prompt.builder import PromptSettings, build_system_text
from timeloom.tools.define import tool
from timeloom.tools.exec.tool import ExecTool
from timeloom.tools.react.toolset import react_tools

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
    exec_tool = ExecTool(open_sandbox(ExecutionSettings()))
    full = _system_text([*(one.spec for one in react_tools()), exec_tool.spec], edition)
    instructions, _, catalogue = full.partition(CATALOGUE_TITLE)
    small = _system_text([one.spec for one in (weather, find_flights, send_message)], edition)
    return SystemSizes(edition, count(instructions), count(CATALOGUE_TITLE + catalogue), count(small))


def _system_text(tools: list[ToolSpec], edition: int) -> str:
    return build_system_text(tools, PromptSettings()).text


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
