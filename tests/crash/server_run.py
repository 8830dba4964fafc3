"""Runs clients against a server that is killed again and again, and collects what is left."""

import asyncio
import random
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import httpx2
import msgspec

from tests.crash.external_world import BoundaryReached, read_lines
from tests.crash.server_checker import ServerEvidence, collect_evidence
from tests.crash.server_clients import (
    CHAT,
    PATIENCE_S,
    Clients,
    ConversationClient,
    start_streamed,
)
from tests.crash.server_world import REPLIES, OutsideModel, ServerProcess, open_server_process, serve_model
from tests.crash.victim_pool import KILLED

ACCEPTED = {"message": 30, "followup": 30, "steer": 8, "alert": 8, "cancel": 5}
REFUSED = {"foreign": 3, "malformed": 3, "decision": 3}
TEXTS: Mapping[str, int] = MappingProxyType(ACCEPTED | REFUSED)
"""How often a client sends each kind of text: those that are accepted if a turn runs, and those always refused."""

NEXT_PROMPT = ("react.tool.result", "react.round.start")
"""Blocks after which the server builds the next prompt: texts that arrive then are the likeliest to be missed."""

LIFE_BLOCKS = 200
"""Most blocks that clients receive from one server before it is killed. Blocks are counted, not seconds, so that a busy
machine does as much."""

WAIT_S = 20.0
"""How long a kill waits for its moment; then the server is killed where it is."""

DOWN_SHARE = 0.1
"""Share of the texts that are sent although no server listens; the others wait for one."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How often a server is killed, how many clients talk to it, and what they and the model say."""

    seed: int
    kills: int
    conversations: int = 8
    replies: Mapping[str, int] = REPLIES
    texts: Mapping[str, int] = TEXTS
    kill_at: int = 0
    """If positive, the first server kills itself at the boundary with this number: two for each call of a tool."""
    fault: str = ""


async def run_killed_server(folder: Path, plan: RunPlan) -> ServerEvidence:
    """Let clients talk to a server that is killed as planned, and return what is left."""
    model = OutsideModel(plan.seed, plan.replies)
    async with (
        asyncio.timeout(PATIENCE_S * 3),
        serve_model(model) as model_url,
        open_server_process(folder, model_url, plan.fault) as server,
        httpx2.AsyncClient(timeout=PATIENCE_S, limits=httpx2.Limits(max_connections=None)) as http,
    ):
        clients = Clients(server, http, folder, plan.seed)
        talks = [asyncio.create_task(talk(clients, plan, number)) for number in range(plan.conversations)]
        if plan.kill_at:
            await server.fork(kill_at=plan.kill_at)
            await server.wait_until_ready()
            assert await server.wait_for_exit() == KILLED
        await _Killer(server, clients, model, folder, random.Random(plan.seed)).kill(plan.kills)
        clients.is_calm.set()
        known = [one for one in await asyncio.gather(*talks) if one]
        # A start whose connection died has no client yet.
        for user in ("ann", "bob"):
            missing = {*await clients.list_conversations(user)} - {one.conversation for one in known}
            known += [ConversationClient(clients, user, conversation) for conversation in sorted(missing)]
        await asyncio.gather(*(one.finish() for one in known))
        assert await server.end(signal.SIGTERM) == 0
        return await collect_evidence(folder, clients, model)


class _Killer:
    """Kills servers at random moments: while one starts, later, at a model request, at a block, at a tool call."""

    def __init__(
        self, server: ServerProcess, clients: Clients, model: OutsideModel, folder: Path, chance: random.Random
    ) -> None:
        self._server = server
        self._clients = clients
        self._model = model
        self._folder = folder
        self._chance = chance

    async def kill(self, times: int) -> None:
        """Start a server and kill it, so many times; then start the last one."""
        for _ in range(times):
            moment = self._chance.choices(("start", "later", "request", "block", "tool"), (1, 2, 2, 2, 3))[0]
            status = await (self._kill_at_tool() if moment == "tool" else self._kill_at(moment))
            assert status == KILLED
        await self._server.fork()
        await self._server.wait_until_ready()

    async def _kill_at(self, moment: str) -> int:
        server, chance = self._server, self._chance
        await server.fork()
        if moment == "start":
            await asyncio.sleep(chance.uniform(0, 0.4))
            return await server.end(signal.SIGKILL)
        await server.wait_until_ready()
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await self._wait_for_blocks(chance.randint(20, LIFE_BLOCKS))
                await self._wait_for_moment(moment)
        return await server.end(signal.SIGKILL)

    async def _wait_for_blocks(self, count: int) -> None:
        wanted = self._clients.block_count + count
        while self._clients.block_count < wanted:
            await _wait_for_next(self._clients.moved)

    async def _wait_for_moment(self, moment: str) -> None:
        if moment == "request":
            await _wait_for_next(self._model.asked)
        await asyncio.sleep(
            self._chance.choice((0, 0, 0.002, 0.01)) if moment != "later" else self._chance.random() / 5
        )

    async def _kill_at_tool(self) -> int:
        """Let the server kill itself before or after the effect of one of its next tool calls."""
        lines = read_lines(self._folder / "outside.jsonl")
        passed = sum(isinstance(line, BoundaryReached) for line in lines)
        await self._server.fork(kill_at=passed + self._chance.randint(1, 4))
        await self._server.wait_until_ready()
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._server.wait_for_exit()
        except TimeoutError:
            return await self._server.end(signal.SIGKILL)


async def _wait_for_next(event: asyncio.Event) -> None:
    event.clear()
    await event.wait()


async def talk(clients: Clients, plan: RunPlan, number: int) -> ConversationClient | None:
    """Start a conversation and send texts of all kinds to it until no more kills come."""
    chance = random.Random(f"{clients.seed} {number}")
    user = chance.choice(("ann", "bob"))
    client: ConversationClient | None = None
    while client is None:
        if clients.is_calm.is_set():
            return None
        await clients.server.is_ready.wait()
        client = await _start(clients, chance, user, number)
    while not clients.is_calm.is_set():
        if chance.random() >= DOWN_SHARE:
            await clients.server.is_ready.wait()
        kind = chance.choices(tuple(plan.texts), tuple(plan.texts.values()))[0]
        await _send(client, kind, f"Please {clients.make_mark()}")
        match chance.randrange(3):
            case 0:
                await client.wait_for_block(NEXT_PROMPT, chance.uniform(0.05, 0.5))
                await asyncio.sleep(chance.choice((0, 0.001, 0.003)))
            case 1:
                await asyncio.sleep(chance.uniform(0, 0.3))
            case _:
                await asyncio.sleep(chance.uniform(0, 0.01))
    return client


async def _start(clients: Clients, chance: random.Random, user: str, number: int) -> ConversationClient | None:
    mark = clients.make_mark()
    text = f"Let us begin tag-{number:06d} {mark}"
    if chance.random() < 0.5:
        read = await start_streamed(clients, user, text, mark)
        return ConversationClient(clients, user, read.conversation, read) if read else None
    sent = await clients.send(user, CHAT, {"message": text}, "message")
    return ConversationClient(clients, user, sent.receipt.conversation_id) if sent.receipt else None


async def _send(client: ConversationClient, kind: str, text: str) -> None:
    if kind == "foreign":
        await client.send("followup", text, user="bob" if client.user == "ann" else "ann")
    elif kind == "malformed":
        await client.send("Not a kind!", text)
    else:
        await client.send(kind, text)
