"""A program for the tests to kill: appends to a store from several tasks and prints the acknowledged entries."""

import asyncio
import random
import sys

from timeloom.core.blocks import AnyBlock, Attachment, Thinking, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationUnknownError
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.store_contract.fixtures import PATH, draft, header
from timeloom.wire.record import encode_record


async def main(folder: str, seed: int) -> None:
    """Append until the process is killed."""
    chance = random.Random(seed)
    async with await SqliteStore.open(folder) as store:
        print("open", flush=True)
        names = [ConversationId(f"conv_{n}") for n in range(4)]
        await asyncio.gather(*(converse(store, name, chance) for name in names))


async def converse(store: SqliteStore, name: ConversationId, chance: random.Random) -> None:
    """Append to the conversation; sometimes delete it and start it again."""
    try:
        tail = (await store.info(name)).tail
    except ConversationUnknownError:
        tail = 0
    while True:
        if tail > 30 and chance.random() < 0.05:
            print(f"deleting {name}", flush=True)
            await store.delete(name)
            print(f"deleted {name}", flush=True)
            tail = 0
        blocks = [random_block(chance) for _ in range(chance.randint(1, 3))]
        entries = await store.append(name, tail, [draft(block) for block in blocks] if tail else [header()])
        for entry in entries:
            print(f"stored {name} {entry.seq} {encode_record(entry).hex()}", flush=True)
        tail = entries[-1].seq


def random_block(chance: random.Random) -> AnyBlock:
    """Return a block of any size, with or without a payload."""
    text = f"{chance.random()} " + "word " * chance.choice([1, 100, 5000])
    match chance.randrange(3):
        case 0:
            return Thinking(round=1, text=text)
        case 1:
            return UserPrompt(text=text)
        case _:
            return Attachment(artifact_path=PATH, mime="a/b", data=bytes([chance.randrange(5)]) * 30_000)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
