"""`get_settings`, `get_plain`, `get_secret` and `get_scratchpad` answer for the bundle whose code runs."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.harness.react_tools import ToolHarness
from timeloom import get_plain, get_scratchpad, get_secret, get_settings
from timeloom.bundles.bundle import Bundle
from timeloom.bundles.bundle_tool import BundleTool
from timeloom.bundles.context import BundleContext, make_context, set_scratchpad, use_bundle
from timeloom.core.codes import CodedError
from timeloom.platform.secrets import SECRETS
from timeloom.ports.tool import Outcome, ToolContext, ToolSpec
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.tools.define import tool


class Limits(msgspec.Struct, frozen=True):
    rows: int = 5


class ShopSettings(msgspec.Struct, frozen=True):
    town: str = "Oslo"
    limits: Limits = Limits()


def code_of(name: str) -> str:
    with pytest.raises(CodedError) as caught:
        get_secret(name)
    return f"{caught.value.code}: {caught.value}"


def test_settings_are_typed_and_plain() -> None:
    with use_bundle(BundleContext(bundle="shop", settings=ShopSettings())):
        assert get_settings(ShopSettings).town == "Oslo"
        assert get_settings() == ShopSettings()
        assert (get_plain("limits.rows"), get_plain("limits.columns", 7)) == (5, 7)
        with pytest.raises(CodedError, match=r"has no setting 'limits\.columns'; known here: rows"):
            get_plain("limits.columns")
        with pytest.raises(CodedError, match="has no settings of type Limits; its settings are ShopSettings"):
            get_settings(Limits)


def test_plain_settings_become_the_asked_type() -> None:
    with use_bundle(BundleContext(bundle="shop", plain={"town": "Bergen", "limits": {"rows": "9"}})):
        assert get_settings(ShopSettings) == ShopSettings("Bergen", Limits(9))
        with pytest.raises(CodedError, match="do not fit Limits"):
            get_settings(type("Limits", (msgspec.Struct,), {"__annotations__": {"depth": int}}))


def test_outside_of_a_bundle_nothing_answers() -> None:
    for ask in (get_settings, get_scratchpad, lambda: get_plain("a"), lambda: get_secret("b:a")):
        with pytest.raises(CodedError) as caught:
            ask()
        assert caught.value.code == "bundle_context_missing"


def test_secrets_are_read_by_reference_and_redacted_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "token of the shop, planted")
    (tmp_path / "shared").write_text("shared secret, planted\n")
    bundle = Bundle(name="shop", secrets={"token": "env:SHOP_TOKEN", "gone": "env:NOT_THERE"})
    with use_bundle(make_context(bundle, {"services.mail": f"file:{tmp_path}/shared"})):
        secret = get_secret("b:token")
        assert (str(secret), secret.reveal()) == ("[secret]", "token of the shop, planted")
        assert get_secret("services.mail").reveal() == "shared secret, planted"
        assert SECRETS.redact("with token of the shop, planted") == "with [secret]"
        assert code_of("b:services.mail") == (
            "secret_unknown: the bundle shop has no secret 'services.mail'; known there: gone, token"
        )
        assert code_of("token") == "secret_unknown: the server has no secret 'token'; known there: services.mail"
        assert code_of("b:gone").startswith("secret_unavailable: the secret 'env:NOT_THERE' cannot be read")


def test_two_bundles_at_the_same_time_see_their_own_values() -> None:
    async def ask(name: str) -> str:
        with use_bundle(BundleContext(bundle=name, plain={"name": name})):
            for _ in range(3):
                await asyncio.sleep(0)
            return str(await asyncio.to_thread(get_plain, "name"))

    async def check() -> list[str]:
        return list(await asyncio.gather(ask("first"), ask("second")))

    assert asyncio.run(check()) == ["first", "second"]


@tool("shop.town", effect="pure")
def town() -> str:
    """Return the town."""
    get_scratchpad()["asked"] = True
    return str(get_plain("town"))


@town.reconciled_by
async def was_asked() -> str:
    """Return what is known of an earlier call."""
    return f"asked in {get_plain('town')}"


class Plain:
    """A tool that cannot reconcile."""

    spec = ToolSpec(tool_id="plain.thing", purpose="Does a thing.")

    async def call(self, params: str, context: ToolContext) -> Outcome:
        return Outcome(status=f"{params} {context.turn_id} {get_plain('town')}")


def test_a_tool_of_a_bundle_runs_with_its_values(tmp_path: Path) -> None:
    async def check() -> None:
        context = ToolHarness(await MemoryStore.open(), tmp_path).context()
        shop = BundleContext(bundle="shop", plain={"town": "Oslo"})
        bound = BundleTool(town, shop, "orders.town")
        assert bound.spec.tool_id == "orders.town"
        assert (await bound.call("{}", context)).artifacts[0].text == "Oslo"
        found = await bound.reconcile("{}", context)
        assert isinstance(found, Outcome)
        assert found.artifacts[0].text == "asked in Oslo"
        plain = BundleTool(Plain(), shop)
        assert (await plain.call("{}", context)).status == "{} turn_1 Oslo"
        assert await plain.reconcile("{}", context) == "unknown"
        with use_bundle(BundleContext(bundle="bank", plain={"town": "Zug"})):
            assert (await bound.call("{}", context)).artifacts[0].text == "Oslo"
        with use_bundle(shop):
            mine: dict[str, object] = {}
            set_scratchpad(mine)
            await bound.call("{}", context)
            assert mine == {"asked": True}

    asyncio.run(check())
