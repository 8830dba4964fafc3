"""The plans that the load generator executes, and its reports."""

from typing import Literal

import msgspec

Server = Literal["timeloom", "agno", "langgraph"]


class Where(msgspec.Struct, frozen=True):
    """The address of the server under load."""

    port: int
    token: str = ""
    server: Server = "timeloom"


class Hold(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Concurrent streaming conversations; deltas count while all of them stream."""

    where: Where
    streams: int
    ramp_s: float
    hold_s: float
    every_ms: int


class Take(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Turns of concurrent clients, each with several turns in one conversation."""

    where: Where
    clients: int
    turns_each: int


class First(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Sequential requests, each measured until that text arrives."""

    where: Where
    times: int
    text: str
    path: str = ""
    """Replaces the path for messages."""


class Idle(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Idle connections that subscribe to the conversations."""

    where: Where
    streams: int
    conversations: tuple[str, ...]
    stay_s: float


Plan = Hold | Take | First | Idle


class Ready(msgspec.Struct, frozen=True, tag=True):
    """All clients are connected: resources of the server can be measured now."""

    streams: int


class Held(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Delays of the deltas, and the delay of the load generator itself."""

    deltas: int
    expected: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    own_p99_ms: float


class Taken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Duration of each turn, from its message to its end, and in total."""

    took_s: float
    each_s: list[float]
    conversations: list[str]


class Firsts(msgspec.Struct, frozen=True, tag=True):
    """Time to the first delta of each request, and the events of the last answer."""

    each_s: list[float]
    events: list[str]


class Stayed(msgspec.Struct, frozen=True, tag=True):
    """Open connections at the end, and how many of them received a heartbeat."""

    streams: int
    alive: int


Report = Ready | Held | Taken | Firsts | Stayed
