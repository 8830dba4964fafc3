"""An export carries its hash chain and is checked without a store."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    Completion,
    Erased,
    Hidden,
    TurnEnded,
    TurnStarted,
    Unknown,
    UserPrompt,
)
from timeloom.core.blocks.redact import redact_block
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import Draft
from timeloom.runtime.read.export import export_timeline
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing.samples import SAMPLE_BLOCKS
from timeloom.testing.store_contract.fixtures import CONVERSATION, PATH, draft, header
from timeloom.wire.chain import ChainProblem, hash_link
from timeloom.wire.exported_chain import ExportReport, check_export, rebuild_export

TURN = TurnId("turn_1")
Heads = dict[ConversationId, dict[int, str]]


def in_turn(block: AnyBlock, original: str = "") -> Draft:
    return Draft(TURN, draft(block).ts, block, original)


async def export(*, erase: bool = True) -> tuple[bytes, Heads]:
    store = MemoryStore()
    blocks = [in_turn(TurnStarted(n=1)), in_turn(UserPrompt(text="1234")), in_turn(UserPrompt(text="large " * 9000))]
    blocks += [draft(Attachment(artifact_path=PATH, mime="a/b", data=b"picture")), in_turn(Completion(text="one", n=1))]
    blocks += [
        in_turn(Completion(text="two", n=2)),
        in_turn(Hidden(target="ar:turn_1.assistant.completion.1", replacement="gone")),
    ]
    blocks += [in_turn(Unknown(json='{"type":"foreign.thing","x":1}', foreign_type="foreign.thing"))]
    blocks += [draft(Unknown(json='{"type":"foreign.thing"}', foreign_type="foreign.thing"))]
    blocks += [in_turn(UserPrompt(text="odd"), '{"type":"user.prompt","text":"odd","extra":true}')]
    blocks += [in_turn(TurnEnded(reason="completed"))]
    await store.append(CONVERSATION, 0, [header(), *blocks])
    heads = {CONVERSATION: {12: hash_link((await store.load_chain(CONVERSATION))[11]).hex()}}
    if erase:
        entries = await store.load(CONVERSATION)
        gone = replace(entries[2], block=redact_block(entries[2].block))
        await store.erase(CONVERSATION, 12, [gone], draft(Erased(by="somebody")))
    return b"".join([piece async for piece in export_timeline(store, CONVERSATION)]), heads


def checked(data: bytes, heads: Heads) -> ExportReport:
    return check_export(data, heads)


def test_an_export_gives_its_records_hashes_and_payloads_back() -> None:
    data, heads = asyncio.run(export())
    rebuilt = rebuild_export(data)
    assert (rebuilt.conversation, len(rebuilt.links), len(rebuilt.payloads)) == (CONVERSATION, 13, 2)
    assert hash_link(rebuilt.links[11]).hex() == heads[CONVERSATION][12]
    assert hash_link(rebuilt.links[12]) == rebuilt.head
    with pytest.raises(CodedError) as refused:
        rebuild_export(data.replace(b'"text":"two"', b'"text":"ten"'))
    assert refused.value.code == "chain_broken"


@pytest.mark.parametrize("erase", [False, True])
def test_an_export_that_nobody_touched_holds(erase: bool) -> None:
    data, heads = asyncio.run(export(erase=erase))
    report = checked(data, heads)
    assert report == ExportReport(
        conversation=CONVERSATION, entries=12 + erase, chained_from=1, erased=int(erase), problems=()
    )


def test_every_block_type_survives_the_way_through_an_export() -> None:
    async def check() -> ExportReport:
        store = MemoryStore()
        blocks = [block for block in SAMPLE_BLOCKS if block.type_name != "conv.header"]
        await store.append(CONVERSATION, 0, [header(), *(in_turn(block) for block in blocks)])
        return checked(b"".join([piece async for piece in export_timeline(store, CONVERSATION)]), {})

    assert asyncio.run(check()).problems == ()


def change_text(timeline: Any) -> int:
    timeline["blocks"][3]["text"] += "!"
    return 4


def change_bytes(timeline: Any) -> int:
    timeline["blocks"][4]["base64"] = "aGVsbG8="
    return 5


def change_hidden(timeline: Any) -> int:
    assert timeline["blocks"][5]["meta"]["hidden"]
    timeline["blocks"][5]["text"] = "another"
    return 6


def change_time(timeline: Any) -> int:
    timeline["blocks"][1]["ts"] = "2020-01-01T00:00:00Z"
    return 2


def drop(timeline: Any) -> int:
    del timeline["blocks"][6]
    return 6


def swap(timeline: Any) -> int:
    blocks = timeline["blocks"]
    blocks[5], blocks[6] = blocks[6], blocks[5]
    return 5


def cut(timeline: Any) -> int:
    timeline["blocks"] = timeline["blocks"][:5]
    timeline["chain"]["links"] = timeline["chain"]["links"][:5]
    timeline["tail"] = 5
    return 5


def change_source(timeline: Any) -> int:
    timeline["sources_pool"] = [{"sid": 1}]
    return 12


def change_original(timeline: Any) -> int:
    timeline["blocks"][10]["extra"] = False
    return 11


def break_hex(timeline: Any) -> int:
    timeline["chain"]["links"][4]["salt"] = "no hex"
    return 5


@pytest.mark.parametrize(
    "harm",
    [change_text, change_bytes, change_hidden, change_time, drop, swap, cut, change_source, change_original, break_hex],
)
def test_a_changed_export_is_found(harm: Callable[[Any], int]) -> None:
    data, heads = asyncio.run(export(erase=False))
    timeline = json.loads(data)
    seq = harm(timeline)
    problems = checked(json.dumps(timeline).encode(), heads).problems
    assert problems
    assert abs(problems[0].seq - seq) <= 1


@pytest.mark.parametrize("name", ["tenant", "project", "user", "bundle", "title", "started_ts", "last_ts"])
@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_a_changed_field_before_the_blocks_is_found(name: str, change: str) -> None:
    data, heads = asyncio.run(export())
    timeline = json.loads(data)
    del timeline[name]
    if change == "replaced":
        timeline[name] = "another"
    (problem,) = checked(json.dumps(timeline).encode(), heads).problems
    assert problem == ChainProblem(1, f"the export does not have the {name} that its entries say")


def test_an_export_of_another_history_is_found_by_the_heads() -> None:
    (data, _), (_, heads) = asyncio.run(export()), asyncio.run(export())
    assert [problem.seq for problem in checked(data, heads).problems] == [12]
    assert [problem.seq for problem in checked(data, {CONVERSATION: {99: "00"}}).problems] == [14]


def test_an_export_of_an_older_version_has_no_chain() -> None:
    data, _ = asyncio.run(export())
    timeline = json.loads(data)
    del timeline["chain"]
    assert checked(json.dumps(timeline).encode(), {}).chained_from == 0


@pytest.mark.parametrize("name", ["title", "sources_pool"])
def test_a_deeply_nested_value_is_a_problem_or_an_error(name: str) -> None:
    data, heads = asyncio.run(export())
    timeline = json.loads(data)
    timeline[name] = "DEEP"
    text = json.dumps(timeline)
    # Near the limit of the interpreter, one reader of the value may refuse it and another not.
    for depth in range(sys.getrecursionlimit() - 150, sys.getrecursionlimit() + 1):
        with suppress(CodedError):
            assert checked(text.replace('"DEEP"', "[" * depth + "]" * depth).encode(), heads).problems


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"type":"other","conversation_id":"x","blocks":[]}'])
def test_what_is_no_export_is_said_to_be(data: bytes) -> None:
    with pytest.raises(CodedError):
        checked(data, {})
