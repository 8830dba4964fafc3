"""Typed records: Structs instead of bytes, for one kind and one owner."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import msgspec
import pytest

from timeloom.core.codes import CodedError
from timeloom.ports.records import RecordAddress, RecordConflictError, RecordRefusedError, RecordScope
from timeloom.ports.typed_records import TypedRecords, bundle_records
from timeloom.stores.in_memory.store import MemoryStore

T = TypeVar("T")

ANN, BOB = RecordScope("acme", "shop", "ann"), RecordScope("acme", "shop", "bob")


class Basket(msgspec.Struct, frozen=True):
    items: tuple[str, ...] = ()


class MovableClock:
    def __init__(self) -> None:
        self.now_us = 1_000_000

    def epoch_us(self) -> int:
        return self.now_us


def run(work: Coroutine[None, None, T]) -> T:
    return asyncio.run(work)


def test_a_value_comes_back_as_it_was_stored() -> None:
    async def check() -> None:
        baskets = TypedRecords(MemoryStore().records, "basket", Basket, ANN)
        assert await baskets.get("today") is None
        version = await baskets.create("today", Basket(("tea",)))
        assert await baskets.get("today") == ("today", Basket(("tea",)), version)
        newer = await baskets.replace("today", Basket(("milk",)), version)
        with pytest.raises(RecordConflictError):
            await baskets.replace("today", Basket(), version)
        with pytest.raises(RecordConflictError):
            await baskets.create("today", Basket())
        with pytest.raises(RecordConflictError):
            await baskets.delete("today", version)
        assert await baskets.delete("today", newer)
        assert not await baskets.delete("today")

    run(check())


def test_one_owner_does_not_reach_the_records_of_another() -> None:
    async def check() -> None:
        store = MemoryStore()
        ann, bob = (TypedRecords(store.records, "basket", Basket, scope) for scope in (ANN, BOB))
        await ann.put("today", Basket(("tea",)))
        assert await bob.get("today") is None
        assert (await bob.list()).records == ()
        assert not await bob.delete("today")
        everyone = TypedRecords(store.records, "basket", Basket)
        assert await everyone.get("today") is None

    run(check())


def test_an_update_is_repeated_until_no_other_writer_interferes() -> None:
    async def check() -> None:
        baskets = TypedRecords(MemoryStore().records, "basket", Basket, ANN)
        calls: list[Basket | None] = []

        def add_tea(before: Basket | None) -> Basket:
            calls.append(before)
            return Basket((*(before.items if before else ()), "tea"))

        await asyncio.gather(*(baskets.update("today", add_tea) for _ in range(5)))
        found = await baskets.get("today")
        assert found and found.value == Basket(("tea",) * 5)
        assert calls[0] is None

    run(check())


def test_an_update_that_always_conflicts_ends_with_the_conflict() -> None:
    async def check() -> None:
        store = MemoryStore()
        baskets = TypedRecords(store.records, "basket", Basket, ANN)
        other = TypedRecords(store.records, "basket", Basket, ANN)

        def interfere(before: Basket | None) -> Basket:
            # Runs the other write to its end before this one is stored.
            task = other.put("today", Basket(("milk",)))
            with pytest.raises(StopIteration):
                task.send(None)
            return Basket(before.items if before else ())

        with pytest.raises(RecordConflictError):
            await baskets.update("today", interfere)

    run(check())


def test_a_record_with_an_expiry_is_absent_after_it() -> None:
    async def check() -> None:
        clock = MovableClock()
        cache = TypedRecords(MemoryStore().records, "cache", Basket, clock=clock)
        await cache.put("page", Basket(), expires_in_s=2)
        clock.now_us += 1_999_999
        assert await cache.get("page")
        clock.now_us += 1
        assert await cache.get("page") is None
        assert (await cache.list()).records == ()
        await cache.create("page", Basket(), expires_in_s=0.5)
        assert await cache.delete("page")

    run(check())


def test_records_are_listed_in_pages_and_iterated_over_all_of_them() -> None:
    async def check() -> None:
        baskets = TypedRecords(MemoryStore().records, "basket", Basket, ANN)
        for n in range(1003):
            await baskets.put(f"day/{n:04}", Basket())
        await baskets.put("week", Basket())
        page = await baskets.list("day/", limit=2)
        assert [record.key for record in page.records] == ["day/0000", "day/0001"]
        page = await baskets.list("day/", limit=1, cursor=page.cursor)
        assert [record.key for record in page.records] == ["day/0002"]
        assert len([record async for record in baskets.iterate("day/")]) == 1003
        assert [record.key async for record in baskets.iterate("week")] == ["week"]

    run(check())


def test_a_value_of_another_type_is_reported_with_its_key() -> None:
    async def check() -> None:
        store = MemoryStore()
        address = RecordAddress(kind="basket", key="today", tenant="acme", project="shop", user="ann")
        await store.records.put(address, b'{"items":7}', expected=None)
        baskets = TypedRecords(store.records, "basket", Basket, ANN)
        with pytest.raises(CodedError, match="record basket 'today' does not have the expected type") as raised:
            await baskets.get("today")
        assert raised.value.code == "record_unreadable"
        await baskets.delete("today")

    run(check())


def test_state_of_a_bundle_is_separate_by_bundle_and_name() -> None:
    async def check() -> None:
        records = MemoryStore().records
        shop = bundle_records(records, "shop", Basket, ANN)
        await shop.put("today", Basket(("tea",)))
        assert await bundle_records(records, "other", Basket, ANN).get("today") is None
        assert await bundle_records(records, "shop", Basket, ANN, name="wishes").get("today") is None
        assert await bundle_records(records, "shop", Basket, ANN).get("today")
        for malformed in ("a b", "", "a/b"):
            with pytest.raises(RecordRefusedError):
                bundle_records(records, malformed, Basket, ANN)

    run(check())
