"""Plans of a crowd, and what it says of what came of them."""

from typing import Literal

import msgspec

Server = Literal["timeloom", "agno", "langgraph"]


class Where(msgspec.Struct, frozen=True):
    """The server that a crowd goes to."""

    port: int
    token: str = ""
    server: Server = "timeloom"


class Hold(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """So many conversations that stream at once; what is written while all of them do counts."""

    where: Where
    streams: int
    ramp_s: float
    hold_s: float
    every_ms: int


class Take(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """So many turns, some at a time, each client with so many in one conversation."""

    where: Where
    clients: int
    turns_each: int


class First(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """So many requests one after the other, until that text comes."""

    where: Where
    times: int
    text: str
    path: str = ""
    """Instead of the one that messages go to."""


class Idle(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """So many connections that hear the conversations and are told nothing for a while."""

    where: Where
    streams: int
    conversations: tuple[str, ...]
    stay_s: float


Plan = Hold | Take | First | Idle


class Ready(msgspec.Struct, frozen=True, tag=True):
    """All are there: what can be looked at from outside is looked at now."""

    streams: int


class Held(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How late the deltas were, and how late the crowd itself was to look."""

    deltas: int
    expected: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    own_p99_ms: float


class Taken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How long each turn took, from its message to its end, and all together."""

    took_s: float
    each_s: list[float]
    conversations: list[str]


class Firsts(msgspec.Struct, frozen=True, tag=True):
    """How long the first deltas took, and the events of the last answer."""

    each_s: list[float]
    events: list[str]


class Stayed(msgspec.Struct, frozen=True, tag=True):
    """How many connections were there at the end, and how many of them had heard a heartbeat."""

    streams: int
    alive: int


Report = Ready | Held | Taken | Firsts | Stayed
