"""Tools of a bundle and programs in tasks: calls at the caller and in the task, and what the program can see."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.fargate.fargate_harness import FargateHarness
from tests.harness.bundle_programs import check_bundle_programs
from tests.harness.planted_search import search_program
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.policy.gates import Caller
from timeloom.ports.bundle_context import BundleContext
from timeloom.ports.sandbox import CallDelegation, Program
from timeloom.sandbox.fargate.scoped_settings import add_bundle
from timeloom.sandbox.remote.descriptor_files import read_bundle_context
from timeloom.tools.exec.descriptors import make_descriptors

OWN, SHARED, FOREIGN = "planted secret of the shop", "planted secret of the server", "planted secret of the bank"

TOOLS = """
from msgspec import Struct
from timeloom import get_plain, get_secret, get_settings, tool

TOWN = get_plain("town")


class ShopSettings(Struct):
    town: str
    rows: int = 5


@tool("shop.sign", effect="pure")
def sign() -> dict:
    '''Sign with the secrets.'''
    lengths = [len(get_secret(name).reveal()) for name in ("b:token", "services.mail")]
    return {"town": TOWN, "rows": get_settings(ShopSettings).rows, "lengths": lengths}


@tool("shop.leak", effect="pure")
def leak() -> str:
    '''Return a secret.'''
    return get_secret("b:token").reveal()


@tool("shop.raises", effect="pure")
def raises() -> str:
    '''Ask for the secret of another bundle.'''
    return str(get_secret("b:vault"))
"""

CALLS = """
    io_tools.tool_call("shop.sign", {}),
    io_tools.tool_call("shop.leak", {}),
    io_tools.tool_call("shop.raises", {})
"""
LEAVE = CallDelegation(
    tool_ids=("shop.sign", "shop.leak", "shop.raises"),
    most_calls=5,
    caller=Caller(tenant="t", project="p", user="u", bundle="shop"),
    conversation=ConversationId("conv_1"),
    turn_id=TurnId("turn_1"),
    tool_call_id=CallId("abc"),
)


class ShopSettings(msgspec.Struct, frozen=True):
    town: str = "Oslo"


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> BundleContext:
    monkeypatch.setenv("SHOP_TOKEN", OWN)
    monkeypatch.setenv("MAIL_TOKEN", SHARED)
    return BundleContext(
        bundle="shop",
        settings=ShopSettings(),
        secrets={"token": "env:SHOP_TOKEN", "gone": "env:NOT_THERE"},
        server_secrets={"services.mail": "env:MAIL_TOKEN"},
    )


@pytest.mark.parametrize("scope", ["full", "active_bundle"])
def test_tools_in_a_task_read_the_settings_and_secrets_of_their_bundle(
    stage: FargateHarness, tmp_path: Path, shop: BundleContext, scope: str
) -> None:
    folder = tmp_path / "shop_folder"
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    bank = yaml.safe_dump({"bundles": {"bank": {"secrets": {"vault": FOREIGN}}}})
    sandbox = stage.sandbox(
        bundle=folder,
        tool_modules=(folder / "tools.py",),
        descriptors={"bundles.secrets.yaml": bank},
        descriptor_payload_scope=scope,
    )
    program = Program(
        code=search_program(CALLS, OWN, SHARED, FOREIGN),
        execution_id="exec_1",
        leave=LEAVE,
        bundle="shop",
        make_descriptors=lambda: make_descriptors(shop),
    )

    async def run() -> None:
        async with sandbox.run(program, stage.broker, lambda _stream, _text: None) as ran:
            printed = ran.stdout_tail + ran.stderr_tail
            signed = {"town": "Oslo", "rows": 5, "lengths": [len(OWN), len(SHARED)]}
            assert str(signed) in printed, printed
            assert "'ret': '[secret]'" in printed, printed
            assert "'code': 'secret_unknown'" in printed, printed
            assert "searched True" in printed, printed
            assert "FOUND" not in printed, printed
            assert OWN not in str(ran.calls)
            assert [json.loads(call.answer)["ok"] for call in ran.calls] == [True, True, False]
        await sandbox.close()

    asyncio.run(run())
    assert stage.broker.calls == []
    assert stage.remaining_resources() == []


def test_programs_in_a_task_call_the_tools_of_a_bundle_at_the_caller(
    stage: FargateHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(check_bundle_programs(tmp_path, stage.sandbox(), monkeypatch))


def test_descriptors_have_the_values_of_readable_secrets(
    shop: BundleContext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_descriptors(shop)
    assert yaml.safe_load(made["bundles.secrets.yaml"]) == {
        "bundles": {"items": [{"id": "shop", "secrets": {"token": OWN}}]}
    }
    assert "does not get the secret gone: the secret 'env:NOT_THERE' cannot be read" in caplog.text
    read = read_bundle_context(made, "shop", tmp_path / "secrets")
    assert (read.plain, sorted(read.secrets), sorted(read.server_secrets)) == (
        {"town": "Oslo"},
        ["token"],
        ["services.mail"],
    )
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "secrets").iterdir()} == {0o600}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_descriptors_of_v3_are_read_by_dotted_names(tmp_path: Path) -> None:
    texts = {
        "bundles.yaml": "bundles:\n  shop:\n    config: {react: {max_iterations: 5}}\n",
        "bundles.secrets.yaml": "bundles:\n  items:\n    - {id: shop, secrets: {mail: {key: abc, port: 25}}}\n",
        "secrets.yaml": "services:\n  pay: {key: xyz}\n",
    }
    read = read_bundle_context(texts, "shop", tmp_path / "secrets")
    assert read.plain == {"react": {"max_iterations": 5}}
    assert sorted(read.secrets) == ["mail.key", "mail.port"]
    assert sorted(read.server_secrets) == ["services.pay.key"]
    empty = read_bundle_context({}, "shop", tmp_path / "none")
    assert (empty.plain, empty.secrets, empty.server_secrets) == ({}, {}, {})


@pytest.mark.parametrize("text", ["- a", "bundles: {items: [{id: shop, secrets: [a]}]}", "bundles: {shop: 1}", "a: ["])
def test_a_descriptor_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"bundles\.secrets\.yaml"):
        read_bundle_context({"bundles.secrets.yaml": text}, "shop", tmp_path / "secrets")


def test_the_running_bundle_replaces_its_section() -> None:
    old = yaml.safe_dump({"bundles": {"items": [{"id": "shop", "key": "old"}, {"id": "bank", "key": "other"}]}})
    new = yaml.safe_dump({"bundles": {"items": [{"id": "shop", "key": "new"}]}})
    added = add_bundle({"bundles.yaml": old, "secrets.yaml": "mine: 1"}, {"bundles.yaml": new, "secrets.yaml": "x: 2"})
    assert yaml.safe_load(added["bundles.yaml"])["bundles"]["items"] == [
        {"id": "bank", "key": "other"},
        {"id": "shop", "key": "new"},
    ]
    assert added["secrets.yaml"] == "mine: 1"
