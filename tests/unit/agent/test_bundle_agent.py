"""A bundle's conversations have its tools, rules and settings; the rules of the server stay in force."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.harness.bundles import write_bundle, write_shop
from tests.harness.workflow import RecordingModel
from timeloom import Agent, BaseWorkflow, Bundle, Payload, get_plain, get_settings, tool
from timeloom.agent.bundle_settings import build_bundle_parts
from timeloom.agent.turn_builder import TurnRunnerBuilder
from timeloom.app import AgentSettings, default_tools
from timeloom.bundles.bundle import BundleChannel, BundleWidget
from timeloom.bundles.bundle_file import FILE_NAME
from timeloom.bundles.bundle_tool import BundleTool
from timeloom.bundles.fault import BundleError
from timeloom.bundles.loaded_bundle import check_bundle
from timeloom.bundles.registry import BundleRegistry
from timeloom.config.load import load_settings
from timeloom.config.resolve import SettingSources
from timeloom.core.blocks import ConversationStarted, ToolTraits
from timeloom.core.codes import CodedError
from timeloom.core.policy.gates import Policy, PolicyResult, Proposal, ask_before, only_tools, refuse
from timeloom.core.policy.next_step import TurnLimits
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel, call, says


class ShopSettings(msgspec.Struct, frozen=True):
    currency: str = "EUR"


class Offer(msgspec.Struct):
    price: float


@tool("shop.price", effect="pure")
async def price(item: str) -> str:
    """Return the price."""
    return f"{item} costs 3 {get_settings(ShopSettings).currency}"


@tool("shop.free", effect="pure")
def free() -> str:
    """Return the currency, in a thread."""
    return str(get_plain("currency"))


SHOP = Bundle(name="shop", tools=(price, free), settings=ShopSettings(), instructions="Sell things.")


def test_a_bundle_is_an_agent_with_its_tools_settings_and_instructions() -> None:
    async def check() -> None:
        model = RecordingModel([call("shop.price", item="Tea"), call("shop.free"), says("3 EUR.")])
        async with Agent.from_bundle(SHOP, model) as agent:
            answer = await agent.run("How much is tea?")
            assert (answer.reason, answer.text) == ("completed", "3 EUR.")
            blocks = [entry.block async for entry in agent.timeline(answer.conversation)]
            assert isinstance(blocks[0], ConversationStarted)
            assert blocks[0].bundle == "shop"
            texts = [str(one) for one in blocks]
            assert any("Tea costs 3 EUR" in text for text in texts)
            assert "Sell things." in model.prompts[0]

    asyncio.run(check())


def test_the_output_of_a_bundle_is_the_type_of_its_answers(tmp_path: Path) -> None:
    toml = 'name = "shop"\noutput = "types:Offer"'
    types = "import msgspec\nclass Offer(msgspec.Struct):\n    price: float\n"
    folder = write_bundle(tmp_path / "shop", toml, types=types)
    answer = Agent.from_bundle(folder, ScriptedModel([says('{"price": 3}')])).run_sync("price?")
    assert (answer.output.price, type(answer.output).__name__) == (3.0, "Offer")


def test_a_faulty_bundle_is_refused_where_it_is_named(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "shop", more="nothing = 1")
    with pytest.raises(BundleError, match=rf"{FILE_NAME}, line 4: there is no key `nothing`"):
        Agent.from_bundle(folder, ScriptedModel([]))


class Greeting(BaseWorkflow):
    async def run(self, payload: Payload) -> str:
        return f"Hello from {self.bundle.name}: {get_settings(ShopSettings).currency}."


def test_the_workflow_of_a_bundle_runs_its_turns() -> None:
    bundle = Bundle(name="greeter", workflow=Greeting, settings=ShopSettings())
    assert Agent.from_bundle(bundle, ScriptedModel([])).run_sync("hi").text == "Hello from greeter: EUR."


class BrokenHook(BaseWorkflow):
    async def pre_run_hook(self, payload: Payload) -> None:
        raise ValueError("no stock")


def test_a_hook_that_raises_disables_the_bundle_with_its_line() -> None:
    async def check() -> None:
        async with Agent.from_bundle(Bundle(name="shop", workflow=BrokenHook), ScriptedModel([])) as agent:
            first = await agent.run("hi")
            assert first.reason == "runtime_error"
            with pytest.raises(CodedError) as caught:
                await agent.run("again", conversation=first.conversation)
            assert caught.value.code == "bundle_disabled"
            assert "test_bundle_agent.py, line" in str(caught.value)
            assert "pre_run_hook: ValueError: no stock" in str(caught.value)

    asyncio.run(check())


class BrokenRun(BaseWorkflow):
    async def run(self, payload: Payload) -> str:
        if payload.message == "bad":
            raise ValueError(payload.message)
        return "good"


def test_an_error_of_run_ends_its_turn_only() -> None:
    async def check() -> None:
        async with Agent.from_bundle(Bundle(name="shop", workflow=BrokenRun), ScriptedModel([])) as agent:
            assert (await agent.run("bad")).reason == "runtime_error"
            assert (await agent.run("fine")).text == "good"

    asyncio.run(check())


def parts_of(bundle: Bundle, settings: AgentSettings, option: int | None = None) -> AgentSettings:
    return build_bundle_parts(check_bundle(bundle), settings, default_tools(settings), option).settings


@pytest.mark.parametrize(
    ("server", "wanted", "option", "rounds"),
    [(15, 40, None, 40), (15, 4, None, 4), (15, None, None, 15), (15, 40, 15, 15), (15, 4, 15, 15), (8, None, 8, 8)],
)
def test_the_rounds_of_a_bundle_count_over_the_default_and_under_an_option(
    tmp_path: Path, server: int, wanted: int | None, option: int | None, rounds: int
) -> None:
    settings = AgentSettings(data_dir=tmp_path, limits=TurnLimits(max_iterations=server))
    found = parts_of(Bundle(name="a", max_iterations=wanted), settings, option)
    assert found.limits.max_iterations == rounds


def test_a_bundle_keeps_the_budgets_and_adds_to_the_instructions_and_policies(tmp_path: Path) -> None:
    mine, theirs = only_tools(["react.*"]), ask_before(["shop.*"])
    settings = AgentSettings(data_dir=tmp_path, instructions="Be brief.", policies=(mine,))
    found = parts_of(Bundle(name="a", instructions="Sell.", policies=(theirs,)), settings)
    assert found.instructions == "Be brief.\n\nSell."
    assert found.policies[0] is mine
    assert [one.__name__ for one in found.policies] == ["only_allowed_tools", "tools_that_need_approval"]
    assert found.budgets == settings.budgets


def test_the_channels_of_a_bundle_are_declared_in_its_turns(tmp_path: Path) -> None:
    channels = {"chart": BundleChannel(mime="application/json", purpose="A chart.", widget="plot")}
    bundle = Bundle(name="a", channels=channels, widgets={"plot": BundleWidget(html="<p>")})
    (declared,) = parts_of(bundle, AgentSettings(data_dir=tmp_path)).channels
    assert (declared.name, declared.mime, declared.widget) == ("chart", "application/json", "plot")


def test_a_tool_that_runs_programs_has_the_context_of_the_bundle(tmp_path: Path) -> None:
    @tool("code.run", effect="pure", traits=ToolTraits(runs_code=True))
    def run_code() -> str:
        """Run a program."""
        return "done"

    settings = AgentSettings(data_dir=tmp_path)
    tools = default_tools(settings).with_tools([run_code])
    registry = build_bundle_parts(check_bundle(SHOP), settings, tools, None).registry
    assert isinstance(registry.resolve("code.run"), BundleTool)
    assert not isinstance(registry.resolve("react.read"), BundleTool)


def test_allowed_tools_leave_out_those_of_the_program(tmp_path: Path) -> None:
    settings = AgentSettings(data_dir=tmp_path)
    bundle = Bundle(name="a", tools=(price, free), allowed_tools=("shop.price", "react.read"))
    parts = build_bundle_parts(check_bundle(bundle), settings, default_tools(settings), None)
    assert [spec.tool_id for spec in parts.registry.specs()] == ["react.read", "shop.price"]


def allow_all(_: Proposal) -> PolicyResult | None:
    return PolicyResult("allow")


def refuse_by_settings(_: Proposal) -> PolicyResult | None:
    return refuse(get_settings(ShopSettings).currency)


@tool("shop.delete")
def delete() -> str:
    """Delete everything."""
    return "deleted"


@pytest.mark.parametrize(("policy", "reason"), [(allow_all, "waiting"), (refuse_by_settings, "refused")])
def test_a_policy_of_a_bundle_can_be_stricter_and_never_looser(policy: Policy, reason: str) -> None:
    bundle = Bundle(name="a", tools=(delete,), policies=(policy,), settings=ShopSettings())
    answer = Agent.from_bundle(bundle, ScriptedModel([call("shop.delete"), says("No.")])).run_sync("delete")
    assert answer.reason == reason


def test_a_budget_of_the_server_ends_the_turns_of_a_bundle_that_asks_for_more_rounds() -> None:
    settings = load_settings(SettingSources(environ={"TIMELOOM_BUDGET_TURN_ROUNDS": "2"})).settings
    bundle = replace_rounds(SHOP, 50)
    model = ScriptedModel([call("shop.price", item=f"Tea {n}") for n in range(9)])
    runtime = replace(settings.execution.runtime, enabled=False)
    quiet = replace(settings, execution=replace(settings.execution, runtime=runtime))
    answer = Agent.from_bundle(bundle, model, settings=quiet).run_sync("prices?")
    assert answer.reason == "budget_exhausted"
    assert len(answer.calls) == 2


def replace_rounds(bundle: Bundle, rounds: int) -> Bundle:
    return Bundle(name=bundle.name, tools=bundle.tools, settings=bundle.settings, max_iterations=rounds)


def test_tools_that_clash_with_those_of_the_server_disable_the_bundle(tmp_path: Path) -> None:
    settings = AgentSettings(data_dir=tmp_path)
    bundles = BundleRegistry([SHOP, Bundle(name="other")])
    TurnRunnerBuilder(MemoryStore(), settings, default_tools(settings).with_tools([price]), bundles)
    assert [fault.bundle for fault in bundles.faults] == ["shop"]
    assert "'shop.price' is an id or alias of" in bundles.faults[0].text


def test_a_clash_with_another_tool_names_where_both_are_defined(tmp_path: Path) -> None:
    @tool("shop.price", effect="pure")
    def other(item: str) -> str:
        """Return another price."""
        return item

    settings = AgentSettings(data_dir=tmp_path)
    bundles = BundleRegistry([SHOP])
    TurnRunnerBuilder(MemoryStore(), settings, default_tools(settings).with_tools([other]), bundles)
    assert len(re.findall(r"shop\.price \(test_bundle_agent\.py, line \d+\)", bundles.faults[0].text)) == 2
    assert bundles.faults[0].text.endswith("; give one of them another id")


def test_a_workflow_that_is_none_and_an_unknown_react_tool_disable_the_bundle(tmp_path: Path) -> None:
    settings = AgentSettings(data_dir=tmp_path)
    bundles = BundleRegistry([Bundle(name="a", workflow=Offer), Bundle(name="b", react=("react.nothing",))])
    TurnRunnerBuilder(MemoryStore(), settings, default_tools(settings), bundles)
    texts = [fault.text for fault in bundles.faults]
    assert "must be a subclass of timeloom.BaseWorkflow" in texts[0]
    assert "react names react.nothing" in texts[1]
