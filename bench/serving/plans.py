"""The plans that the load generator executes, and its reports."""

from typing import Literal

import msgspec

Server = Literal["timeloom", "agno", "langgraph"]


class ServerAddress(msgspec.Struct, frozen=True):
    """The address of the server under load."""

    port: int
    token: str = ""
    server: Server = "timeloom"


class HoldPlan(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Concurrent streaming conversations; deltas count while all of them stream."""

    where: ServerAddress
    streams: int
    ramp_s: float
    hold_s: float
    every_ms: int


class TurnsPlan(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Turns of concurrent clients, each with several turns in one conversation."""

    where: ServerAddress
    clients: int
    turns_each: int


class FirstDeltaPlan(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Sequential requests, each measured until that text arrives."""

    where: ServerAddress
    times: int
    text: str
    path: str = ""
    """Replaces the path for messages."""


class IdlePlan(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Idle connections that subscribe to the conversations."""

    where: ServerAddress
    streams: int
    conversations: tuple[str, ...]
    stay_s: float


Plan = HoldPlan | TurnsPlan | FirstDeltaPlan | IdlePlan


class LoadReady(msgspec.Struct, frozen=True, tag=True):
    """All clients are connected: resources of the server can be measured now."""

    streams: int


class HoldReport(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Delays of the deltas, and the delay of the load generator itself."""

    deltas: int
    expected: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    own_p99_ms: float


class TurnsReport(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Duration of each turn, from its message to its end, and in total."""

    took_s: float
    each_s: list[float]
    conversations: list[str]


class FirstDeltaReport(msgspec.Struct, frozen=True, tag=True):
    """Time to the first delta of each request, and the events of the last answer."""

    each_s: list[float]
    events: list[str]


class IdleReport(msgspec.Struct, frozen=True, tag=True):
    """Open connections at the end, and how many of them received a heartbeat."""

    streams: int
    alive: int


Report = LoadReady | HoldReport | TurnsReport | FirstDeltaReport | IdleReport
