"""Measures parsing of a model's reply that arrives in pieces of 16 characters."""

import random
from collections.abc import Callable
from typing import Final

import jiter

from bench import synthetic
from bench.measures import median_s
from bench.report import BenchSection, BenchTable, Cell
from bench.settings import BenchRun
from timeloom.core.stream.channels import DECISION, ChannelParser
from timeloom.core.stream.decision import DecisionStream

PIECE_CHARS: Final = 16


def measure_parsers(run: BenchRun) -> BenchSection:
    """Measure the throughput by content, and streaming of a decision's fields compared with repeated parsing."""
    return BenchSection(tables=(_channels(run), _decisions(run)))


def _channels(run: BenchRun) -> BenchTable:
    chance = random.Random(3)
    chars = run.sizes.text_chars
    replies = {
        "prose": f"<channel:thinking>{synthetic.prose(chance, chars)}</channel:thinking>",
        "code": f"<channel:code>{synthetic.code(chance, chars)}</channel:code>",
        "decision": f"<channel:{DECISION}>{synthetic.decision(chance, chars)}</channel:{DECISION}>",
    }
    rows = [(name, *_measure_speed(_parse, reply, run.sizes.repeats)) for name, reply in replies.items()]
    columns = ("reply", "MB", "MB/s", "µs a piece")
    return BenchTable(title=f"Channel parser, pieces of {PIECE_CHARS} characters", columns=columns, rows=tuple(rows))


def _decisions(run: BenchRun) -> BenchTable:
    chance = random.Random(4)
    rows: list[tuple[Cell, ...]] = []
    for chars in run.sizes.decision_chars:
        text = synthetic.decision(chance, chars)
        rows.append(("DecisionStream", *_measure_speed(_stream, text, run.sizes.repeats)))
        rows.append(("jiter, parsing all again", *_measure_speed(_parse_again, text, 1)))
    notes = ("both give `tool_call.params.content` as far as it is written, after every piece",)
    columns = ("decision by", "MB", "MB/s", "µs a piece")
    return BenchTable(title="Fields of a decision while it is written", columns=columns, rows=tuple(rows), notes=notes)


def _measure_speed(work: Callable[[list[str]], object], text: str, repeats: int) -> tuple[float, float, float]:
    pieces = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]
    megabytes = len(text.encode()) / 1e6
    seconds = median_s(lambda: work(pieces), repeats)
    return megabytes, megabytes / seconds, seconds / len(pieces) * 1e6


def _parse(pieces: list[str]) -> None:
    parser = ChannelParser()
    for piece in pieces:
        parser.feed(piece)
    parser.close()


def _stream(pieces: list[str]) -> None:
    stream = DecisionStream()
    for piece in pieces:
        stream.feed(piece)


def _parse_again(pieces: list[str]) -> None:
    buffer = bytearray()
    for piece in pieces:
        buffer += piece.encode()
        jiter.from_json(bytes(buffer), partial_mode="trailing-strings")
