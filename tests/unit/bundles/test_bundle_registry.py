"""A registry keeps the bundles of a process: a fault disables one, and changed files are loaded again."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.bundles import write_bundle, write_shop
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.fault import BundleFault
from timeloom.bundles.registry import BundleRegistry
from timeloom.core.codes import CodedError


def refusal(registry: BundleRegistry, name: str) -> CodedError:
    with pytest.raises(CodedError) as caught:
        registry.get(name)
    return caught.value


def test_a_fault_disables_one_bundle_and_leaves_the_others(tmp_path: Path) -> None:
    broken = write_bundle(tmp_path / "broken", 'name = "b"\ntools = ["tools:x"]', tools="raise ValueError('no')")
    registry = BundleRegistry([broken, write_shop(tmp_path / "shop")])
    assert registry.names == ("b", "shop")
    assert registry.get("shop").bundle.title == "The shop"
    error = refusal(registry, "b")
    assert error.code == "bundle_disabled"
    assert str(error) == "the bundle b is disabled: tools.py, line 1: ValueError: no"
    assert [one.state for one in registry.statuses()] == ["disabled", "ready"]


def test_the_first_bundle_is_that_of_new_conversations() -> None:
    registry = BundleRegistry([Bundle(name="a"), Bundle(name="b")])
    assert (registry.choose(""), registry.choose("b")) == ("a", "b")
    assert BundleRegistry().choose("") == ""
    with pytest.raises(CodedError, match="there is no bundle 'c'; the bundles are a, b"):
        registry.choose("c")


def test_a_conversation_of_a_bundle_that_is_not_loaded_is_refused() -> None:
    error = refusal(BundleRegistry([Bundle(name="a")]), "shop")
    assert (error.code, "(loaded are a)" in str(error)) == ("bundle_missing", True)


def test_two_bundles_of_one_name_are_refused() -> None:
    with pytest.raises(CodedError, match="two bundles have the name a"):
        BundleRegistry([Bundle(name="a"), Bundle(name="a")])


def test_a_bundle_that_hangs_when_it_is_loaded_is_disabled_with_the_line_that_waits(tmp_path: Path) -> None:
    text = "import threading\nthreading.Event().wait()\n"
    folder = write_bundle(tmp_path / "slow", 'name = "slow"\ntools = ["tools:x"]', tools=text)
    registry = BundleRegistry([folder], load_s=0.5)
    assert registry.faults[0].text.endswith("tools.py, line 2: loading it took longer than 0.5 seconds")


def test_changed_files_are_loaded_again_and_a_fault_lasts_until_the_next_change(tmp_path: Path) -> None:
    async def check() -> None:
        folder = write_shop(tmp_path / "shop")
        registry = BundleRegistry([folder], reloads=True)
        first = registry.get("shop")
        await registry.refresh("shop")
        assert registry.get("shop") is first
        write_shop(folder, more="instructions = 'More.'")
        await registry.refresh("shop")
        assert registry.get("shop").bundle.instructions == "More."
        write_shop(folder, more="nothing = 1")
        await registry.refresh("shop")
        assert refusal(registry, "shop").code == "bundle_disabled"
        write_shop(folder, name="market")
        await registry.refresh("shop")
        assert "its name changed to market" in str(refusal(registry, "shop"))
        write_shop(folder)
        await registry.refresh("shop")
        assert registry.get("shop").bundle.instructions == ""

    asyncio.run(check())


def test_a_bundle_that_was_broken_at_the_start_is_loaded_once_it_is_mended(tmp_path: Path) -> None:
    async def check() -> None:
        folder = write_shop(tmp_path / "folder")
        (folder / "tools.py").write_text("def broken(:")
        registry = BundleRegistry([folder], reloads=True)
        assert refusal(registry, "shop").code == "bundle_disabled"
        write_shop(folder)
        await registry.refresh("shop")
        assert registry.get("shop").bundle.title == "The shop"

    asyncio.run(check())


def test_without_reloads_a_changed_file_changes_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        registry = BundleRegistry([write_shop(tmp_path / "shop")])
        first = registry.get("shop")
        write_shop(tmp_path / "shop", more="instructions = 'More.'")
        await registry.refresh("shop")
        assert registry.get("shop") is first

    asyncio.run(check())


def test_a_fault_of_a_hook_disables_the_version_that_has_it() -> None:
    registry = BundleRegistry([Bundle(name="a")])
    fault = BundleFault(bundle="a", code="hook_failed", file="hooks.py", line=3, reason="no")
    registry.disable(BundleRegistry([Bundle(name="a")]).get("a"), fault)
    assert registry.faults == ()
    registry.disable(registry.get("a"), fault)
    assert registry.faults == (fault,)
    assert refusal(registry, "a").code == "bundle_disabled"
