"""The clients of the killed servers: users who send texts, approvers who decide, and readers of event streams."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Literal

import httpx2
import msgspec

from tests.crash.external_world import EffectDone, read_lines
from tests.crash.server_world import PROJECT, TENANT, ServerProcess
from timeloom.runtime.hub.state import SendReceipt

PATIENCE_S = 120
"""Allowance for a busy machine."""
CHAT = f"/chat/{TENANT}/{PROJECT}"
EVENTS = f"/events/{TENANT}/{PROJECT}"
NO_CONNECTION = "no connection"
LIST = f"/conversations/{TENANT}/{PROJECT}"

USER_SHARE, APPROVED_SHARE, DOUBLE_SHARE = 0.5, 0.75, 0.3
"""Shares of the decisions: by the owner instead of an approver, approved, and sent with a second, rejecting one."""

Outcome = Literal["accepted", "refused", "unknown"]
"""What a client knows: the server acknowledged, refused or never received a text, or the connection died."""


class SentText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that a client sent, by its mark, and what the client knows of it."""

    mark: str
    kind: str
    conversation: str
    """The conversation that it was sent to; empty for one that starts a conversation."""
    outcome: Outcome
    receipt: SendReceipt | None = None
    why: str = ""


class StreamRead(msgspec.Struct, kw_only=True):
    """The stored blocks that one client received, over all its connections, each with its seq and its bytes."""

    conversation: str
    after: int = 0
    blocks: list[tuple[int, bytes]] = []
    problems: list[str] = []


class SseEvent(msgspec.Struct, frozen=True):
    """A server-sent event with the bytes of its data."""

    name: str
    data: bytes


class _BlockData(msgspec.Struct, frozen=True):
    seq: int
    block: msgspec.Raw


class _ApprovalData(msgspec.Struct, frozen=True):
    tool_call_id: str


class _StatusData(msgspec.Struct, frozen=True):
    conversation_id: str
    state: str
    approvals: tuple[_ApprovalData, ...] = ()


class _BlockType(msgspec.Struct, frozen=True):
    type: str


class _ListPage(msgspec.Struct, frozen=True):
    conversations: list[dict[str, object]]
    cursor: str = ""


class Clients:
    """What all clients share: the server, the connections, the texts that were sent and the streams that were read."""

    def __init__(self, server: ServerProcess, http: httpx2.AsyncClient, folder: Path, seed: int) -> None:
        self.server = server
        self.http = http
        self.seed = seed
        self.sent: list[SentText] = []
        self.reads: list[StreamRead] = []
        self.is_calm = asyncio.Event()
        """Set when no more kills come: clients stop sending, and readers end once they have read everything."""
        self.moved = asyncio.Event()
        """Set by each block that any reader receives."""
        self.block_count = 0
        """The number of blocks that all readers have received."""
        self._folder = folder
        self._numbers = count(1)

    def make_mark(self) -> str:
        return f"mark-{next(self._numbers):06d}"

    def is_done(self, call_id: str) -> bool:
        """Whether the effect of the call is in the log of effects."""
        lines = read_lines(self._folder / "outside.jsonl")
        return any(isinstance(line, EffectDone) and line.call == call_id for line in lines)

    async def send(self, user: str, path: str, body: dict[str, object], kind: str, conversation: str = "") -> SentText:
        """Send the text in the body, which contains a mark, and record what is known of it afterwards."""
        mark = str(body["message"] if "message" in body else body["text"])[-len("mark-000000") :]
        outcome, receipt, why = await self._post(user, path, body)
        sent = SentText(mark=mark, kind=kind, conversation=conversation, outcome=outcome, receipt=receipt, why=why)
        self.sent.append(sent)
        return sent

    async def _post(self, user: str, path: str, body: dict[str, object]) -> tuple[Outcome, SendReceipt | None, str]:
        try:
            response = await self.http.post(f"{self.server.url}{path}", json=body, headers=_headers(user))
        except httpx2.ConnectError:
            return "refused", None, NO_CONNECTION
        except httpx2.TransportError as error:
            return "unknown", None, type(error).__name__
        if response.status_code == 202:
            return "accepted", msgspec.json.decode(response.content, type=SendReceipt), ""
        return "refused", None, f"{response.status_code} {response.text[:200]}"

    async def get(self, user: str, path: str) -> bytes:
        """Return the response of a request that may be repeated until a server answers."""
        while True:
            await self.server.is_ready.wait()
            try:
                response = await self.http.get(f"{self.server.url}{path}", headers=_headers(user))
            except httpx2.TransportError:
                await asyncio.sleep(0.01)
                continue
            assert response.status_code == 200, response.text
            return response.content

    async def list_conversations(self, user: str) -> list[str]:
        """Return the ids of all conversations of the user."""
        found: list[str] = []
        cursor = ""
        while True:
            content = await self.get(user, f"{LIST}?limit=50&cursor={cursor}")
            page = msgspec.json.decode(content, type=_ListPage)
            found += [str(one["id"]) for one in page.conversations]
            if not (cursor := page.cursor):
                return found


class ConversationClient:
    """The user of one conversation: two readers of its stream, and decisions on its approvals."""

    def __init__(self, clients: Clients, user: str, conversation: str, streamed: StreamRead | None = None) -> None:
        self._clients = clients
        self.user = user
        self.conversation = conversation
        self._chance = random.Random(f"{clients.seed} {conversation}")
        self._deciding: set[str] = set()
        self._asked_again: set[str] = set()
        """Calls whose question arrived while a decision was on its way, which may have been too early for it."""
        self.types: list[str] = []
        """The types of the blocks that the first reader has received."""
        self.moved = asyncio.Event()
        self._is_last = False
        self._tasks: set[asyncio.Task[None]] = set()
        steady = streamed or StreamRead(conversation=conversation, blocks=[], problems=[])
        hasty = StreamRead(conversation=conversation, blocks=[], problems=[])
        clients.reads += [steady, hasty]
        self._readers = [
            asyncio.create_task(self._read(steady, hasty=False)),
            asyncio.create_task(self._read(hasty, hasty=True)),
        ]

    async def finish(self) -> None:
        """Wait until the conversation rests, send the last message, and wait until all of its stream was read."""
        await self._wait_until_idle()
        mark = self._clients.make_mark()
        said = await self.send("message", f"The last words: {mark}")
        assert said.receipt is not None, said
        self._is_last = True
        await asyncio.gather(*self._readers)
        for task in tuple(self._tasks):
            await task

    async def send(self, kind: str, text: str, user: str = "") -> SentText:
        """Send a text of that kind to the conversation."""
        clients, user = self._clients, user or self.user
        if kind == "message":
            body: dict[str, object] = {"message": text, "conversation_id": self.conversation}
            return await clients.send(user, CHAT, body, kind, self.conversation)
        if kind == "decision":
            path = f"{LIST}/{self.conversation}/approvals/0123456789ab"
            return await clients.send(user, path, {"approved": True, "text": text}, kind, self.conversation)
        path = f"{EVENTS}/{self.conversation}"
        return await clients.send(user, path, {"kind": kind, "text": text}, kind, self.conversation)

    async def wait_for_block(self, types: tuple[str, ...], timeout_s: float) -> None:
        """Wait until a new block of one of these types arrives, at most for that time."""
        known = len(self.types)
        try:
            async with asyncio.timeout(timeout_s):
                while not any(one in types for one in self.types[known:]):
                    self.moved.clear()
                    await self.moved.wait()
        except TimeoutError:
            return

    async def _wait_until_idle(self) -> None:
        while True:
            content = await self._clients.get(self.user, f"{LIST}/{self.conversation}/status")
            if msgspec.json.decode(content, type=_StatusData).state == "idle":
                return
            await asyncio.sleep(0.02)

    async def _read(self, read: StreamRead, *, hasty: bool) -> None:
        """Read the stream to its end, over as many connections as it takes."""
        chance = random.Random(f"{self._clients.seed} {self.conversation} {hasty}")
        while not await self._read_once(read, hasty=hasty, most=chance.randint(1, 40)):
            await self._clients.server.is_ready.wait()
            await asyncio.sleep(0.001)

    async def _read_once(self, read: StreamRead, *, hasty: bool, most: int) -> bool:
        """Read one connection; return whether everything was read. A hasty reader leaves after some blocks."""
        after = read.blocks[-1][0] if read.blocks else read.after
        headers = _headers(self.user) | ({"last-event-id": str(after)} if after else {})
        url = f"{self._clients.server.url}{CHAT}/{self.conversation}/stream"
        try:
            async with self._clients.http.stream("GET", url, headers=headers) as response:
                if response.status_code != 200:
                    await response.aread()
                    read.problems.append(f"a stream after {after} was refused: {response.text[:300]}")
                    return True
                async for event in read_events(response):
                    if self._receive(read, event, hasty=hasty):
                        return True
                    if hasty and len(read.blocks) and read.blocks[-1][0] - after >= most:
                        return False
        except httpx2.TransportError:
            pass
        return False

    def _receive(self, read: StreamRead, event: SseEvent, *, hasty: bool) -> bool:
        """Keep a block, decide on an approval; return whether the stream has ended for this test."""
        match event.name:
            case "chat.block":
                add_block(read, event)
                if not hasty:
                    kind = msgspec.json.decode(read.blocks[-1][1], type=_BlockType).type
                    self.types.append(kind)
                    self.moved.set()
                self._clients.block_count += 1
                self._clients.moved.set()
            case "conv.status":
                status = msgspec.json.decode(event.data, type=_StatusData)
                for call_id in [one.tool_call_id for one in status.approvals]:
                    self._decide_soon(call_id)
            case "chat.approval":
                self._decide_soon(msgspec.json.decode(event.data, type=_ApprovalData).tool_call_id)
            case "chat.error":
                read.problems.append(f"the stream had an error: {event.data.decode()}")
            case _:
                pass
        return self._is_last and _is_over(read)

    def _decide_soon(self, call_id: str) -> None:
        if call_id in self._deciding:
            self._asked_again.add(call_id)
        else:
            self._deciding.add(call_id)
            task = asyncio.create_task(self._decide(call_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _decide(self, call_id: str) -> None:
        """Send a decision; a call whose effect has happened is never approved, as a person would do it.

        Only one approval of a call is on its way at a time. A second decision always rejects, because it may come so
        late that it answers the question after a crash.
        """
        is_wanted = random.Random(f"{self._clients.seed} {call_id}").random() < APPROVED_SHARE
        await asyncio.sleep(self._chance.uniform(0, 0.1))
        is_heard = False
        while not is_heard:
            await self._clients.server.is_ready.wait()
            approved = is_wanted and not self._clients.is_done(call_id)
            decisions = [self._send_decision(call_id, approved=approved)]
            if self._chance.random() < DOUBLE_SHARE:
                decisions.append(self._send_decision(call_id, approved=False))
            self._asked_again.discard(call_id)
            is_heard = any(is_answered(one) for one in await asyncio.gather(*decisions))
            await asyncio.sleep(0.001)
            is_heard = is_heard and call_id not in self._asked_again
        self._deciding.discard(call_id)

    async def _send_decision(self, call_id: str, *, approved: bool) -> SentText:
        user = self.user if self._chance.random() < USER_SHARE else "eve"
        path = f"{LIST}/{self.conversation}/approvals/{call_id}"
        body: dict[str, object] = {"approved": approved, "text": f"I say {self._clients.make_mark()}"}
        return await self._clients.send(user, path, body, "decision", self.conversation)


async def start_streamed(clients: Clients, user: str, text: str, mark: str) -> StreamRead | None:
    """Start a conversation with a message and read the stream of its first turn; None if its id did not arrive."""
    read = StreamRead(conversation="", blocks=[], problems=[])
    headers = _headers(user) | {"accept": "text/event-stream"}
    outcome, why = "unknown", ""
    try:
        async with clients.http.stream(
            "POST", f"{clients.server.url}{CHAT}", json={"message": text}, headers=headers
        ) as response:
            outcome = "accepted" if response.status_code == 200 else "refused"
            async for event in read_events(response):
                if event.name == "conv.status":
                    read.conversation = msgspec.json.decode(event.data, type=_StatusData).conversation_id
                elif event.name == "chat.block":
                    add_block(read, event)
    except httpx2.ConnectError:
        outcome, why = "refused", NO_CONNECTION
    except httpx2.TransportError as error:
        why = type(error).__name__
    clients.sent.append(SentText(mark=mark, kind="message", conversation="", outcome=outcome, why=why))
    return read if read.conversation else None


def is_answered(sent: SentText) -> bool:
    """Whether a server answered, so that sending it again makes no sense."""
    return sent.outcome == "accepted" or (sent.outcome == "refused" and sent.why != NO_CONNECTION)


async def read_events(response: httpx2.Response) -> AsyncIterator[SseEvent]:
    """Yield the whole events of a response as bytes; an event that a kill cut is dropped, as browsers do."""
    rest = b""
    async for chunk in response.aiter_raw():
        *whole, rest = (rest + chunk).split(b"\n\n")
        for text in whole:
            fields = list(_fields(text))
            name = next((value for key, value in fields if key == b"event"), b"")
            yield SseEvent(name.decode(), b"\n".join(value for key, value in fields if key == b"data"))


def add_block(read: StreamRead, event: SseEvent) -> None:
    """Add the block of a `chat.block` event to what was read."""
    data = msgspec.json.decode(event.data, type=_BlockData)
    read.blocks.append((data.seq, bytes(data.block)))


def _fields(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in text.split(b"\n"):
        name, _, value = line.partition(b": ")
        yield name, value


def _is_over(read: StreamRead) -> bool:
    """Whether the last words, the end of their turn and the title were read; nothing comes after them."""
    types = [msgspec.json.decode(block, type=_BlockType).type for _, block in read.blocks]
    said = next((at for at, (_, block) in enumerate(read.blocks) if b"The last words: " in block), None)
    return said is not None and "react.turn.end" in types[said:] and "conv.title" in types


def _headers(user: str) -> dict[str, str]:
    return {"authorization": f"Bearer {user}"}
