"""Stores by their addresses."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.installed_package import install_package
from timeloom.core.codes import CodedError
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.open_store import open_store
from timeloom.stores.sqlite import SqliteStore

CODE = """
from timeloom.stores.in_memory.store import MemoryStore


class AcmeStore(MemoryStore):
    address = ""


async def open_acme(address):
    store = AcmeStore()
    store.address = address
    return store


wrong = 7
"""


def kind(address: str | Path) -> type:
    async def run() -> type:
        store = await open_store(address)
        await store.close()
        return type(store)

    return asyncio.run(run())


def test_a_folder_and_sqlite_open_the_embedded_store(tmp_path: Path) -> None:
    addresses = (tmp_path / "a:b", str(tmp_path / "b"), f"sqlite:{tmp_path}/c", f"sqlite://{tmp_path}/d")
    assert {kind(address) for address in addresses} == {SqliteStore}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a:b", "b", "c", "d"]


def test_memory_opens_the_memory_store() -> None:
    assert kind("memory:") is MemoryStore


def test_an_installed_package_opens_its_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "[timeloom.stores]\nacmedb = acme_stores:open_acme\nwrong = acme_stores:wrong\n"
    install_package(tmp_path, "acme_stores", CODE, points, monkeypatch)
    assert kind("acmedb://host/name").__name__ == "AcmeStore"
    with pytest.raises(CodedError, match="acme_stores:wrong"):
        kind("wrong:x")


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CodedError, match=r"'nobody'.*sqlite:, memory:"):
        kind("nobody://host")
