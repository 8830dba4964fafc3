"""The pytest plug-in, in test runs of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

API_PROGRAM = """
from timeloom import tool
from timeloom.testing import call, says

@tool(effect="pure")
def weather(city: str) -> str:
    \"\"\"Return the current weather.\"\"\"
    return f"7 degrees and rain in {city}"

def test_it_answers(timeloom_agent):
    agent = timeloom_agent([call("tools.weather", city="Oslo"), says("7 degrees.")], tools=[weather])
    answer = agent.run_sync("weather?")
    assert answer.text == "7 degrees."
    assert answer.calls == [("tools.weather", {"city": "Oslo"})]
"""

SERVICE = """
import asyncio
import pytest
from timeloom.testing.model_contract.fixtures import expect_model_error
from timeloom import Agent, register_provider
from timeloom.providers.openai.model import OpenAIModel
from timeloom.providers.settings import ModelSettings

def model(url):
    return OpenAIModel("m", ModelSettings(base_url=url, key="k"))
"""


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    """A run without the plug-ins that this project does not need, which would take most of its time."""
    pytester.makeini("[pytest]\naddopts = -p no:schemathesis -p no:xdist -p no:cov --strict-markers")
    return pytester


def test_the_test_of_an_agent_takes_thirteen_lines(inner: pytest.Pytester) -> None:
    inner.makepyfile(API_PROGRAM)
    inner.runpytest().assert_outcomes(passed=1)
    assert len([line for line in API_PROGRAM.splitlines() if line.strip()]) <= 13


def test_two_runs_make_the_same_timeline(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        """
        import pytest
        from timeloom.testing import says

        SEEN = []

        @pytest.mark.parametrize("run", [1, 2])
        def test_a_turn(timeloom_agent, timeloom_clock, run):
            answer = timeloom_agent([says("Hi.")]).run_sync("hello")
            timeloom_clock.advance(2.5)
            assert timeloom_clock.epoch_us() == 1_767_225_602_500_000
            SEEN.append((answer.conversation, answer.turn, answer.usage))
            assert len(set(SEEN)) == 1
        """
    )
    inner.runpytest().assert_outcomes(passed=2)


def test_an_agent_of_a_test_does_not_depend_on_the_environment(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMELOOM_MAX_ROUNDS", "no number")
    monkeypatch.setenv("AI_REACT_MAX_ITERATIONS", "no number")
    inner.makepyfile(API_PROGRAM)
    inner.runpytest().assert_outcomes(passed=1)


def test_options_of_the_agent_and_a_typed_answer_pass_through(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        """
        import msgspec
        from timeloom.testing import ScriptedModel, says

        class Verdict(msgspec.Struct):
            amount: float

        def test_a_typed_answer(timeloom_agent, tmp_path):
            agent = timeloom_agent(ScriptedModel([says(Verdict(7.0))]), output=Verdict, store=tmp_path, name="judge")
            assert agent.run_sync("how much?").output == Verdict(7.0)
            assert agent.name == "judge"
            assert list(tmp_path.iterdir())
        """
    )
    inner.runpytest().assert_outcomes(passed=1)


def test_a_real_model_is_refused_with_the_name_of_the_marker(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        SERVICE
        + """
@pytest.mark.parametrize("url", ["https://models.invalid/v1", "http://localhost:11434/v1", "http://10.0.0.7:9/v1"])
def test_a_call(url):
    Agent(model(url)).run_sync("hello")
"""
    )
    result = inner.runpytest_subprocess()
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        ["*models.invalid, a real model; use a scripted model, or mark *pytest.mark.timeloom_real_models*"]
    )


def test_a_fake_service_of_the_test_is_no_real_model(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        SERVICE
        + """
from timeloom.testing.fake_service import FakeResponse, fake_service

def test_a_call():
    async def ask():
        async with fake_service(FakeResponse(status=401)) as service:
            answer = await Agent(model(service.url)).run("hello")
            assert (answer.reason, len(service.requests)) == ("provider_error", 1)
    asyncio.run(ask())
"""
    )
    inner.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_marker_and_the_setting_allow_real_models(inner: pytest.Pytester) -> None:
    # Nothing listens at the port, so the call fails, but only after the guard has let it pass.
    inner.makepyfile(
        SERVICE
        + """
def call():
    assert asyncio.run(expect_model_error(model("http://localhost:11434/v1"))).kind == "unreachable"

@pytest.mark.timeloom_real_models
def test_allowed():
    call()

def test_forbidden():
    call()
"""
    )
    inner.runpytest_subprocess().assert_outcomes(passed=1, failed=1)
    inner.runpytest_subprocess("-o", "timeloom_real_models=true").assert_outcomes(passed=2)


def test_an_added_provider_is_refused_unless_it_says_that_it_calls_no_service(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        SERVICE
        + """
from timeloom import open_model
from timeloom.testing import ScriptedModel

register_provider("acme", lambda name, settings: ScriptedModel([]))
register_provider("fake", lambda name, settings: object(), remote=False)

def test_a_fake():
    open_model("fake:m")

def test_a_model_that_is_scripted():
    open_model("acme:m")

def test_a_service():
    register_provider("other", lambda name, settings: object())
    with pytest.raises(ValueError, match="'other'.*timeloom_real_models.*remote=False"):
        open_model("other:m")
"""
    )
    inner.runpytest_subprocess().assert_outcomes(passed=3)


BROKEN_ADAPTERS = """
import asyncio
import pytest
from functools import partial
from timeloom.ports.model import TextPiece
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import MODEL_CONTRACT, RECORDS_CONTRACT, STORE_CONTRACT, ScriptedModel, over_script

class Shouting(ScriptedModel):
    async def stream(self, request):
        async for event in super().stream(request):
            yield TextPiece(event.text.upper()) if isinstance(event, TextPiece) else event

class Forgetful(MemoryStore):
    async def load(self, conversation, after=0, limit=None):
        return (await super().load(conversation, after, limit))[:1]

class Unchanged:
    def __init__(self, records):
        self._records = records
    def __getattr__(self, name):
        return getattr(self._records, name)
    async def revision(self, *args):
        return 0

class Stale(MemoryStore):
    @property
    def records(self):
        return Unchanged(super().records)

def by_name(check):
    return check.__name__

@pytest.mark.parametrize("check", MODEL_CONTRACT, ids=by_name)
def test_model(check):
    asyncio.run(check(partial(over_script, open_scripted=Shouting)))

@pytest.mark.parametrize("check", STORE_CONTRACT, ids=by_name)
def test_store(check):
    asyncio.run(check(Forgetful.open))

@pytest.mark.parametrize("check", RECORDS_CONTRACT, ids=by_name)
def test_records(check):
    asyncio.run(check(Stale.open))
"""


def test_a_failed_check_of_a_contract_shows_its_values(inner: pytest.Pytester) -> None:
    inner.makepyfile(BROKEN_ADAPTERS)
    failures = inner.runpytest_subprocess("-x", "--maxfail=30", "--tb=short").stdout.str()
    assert "TextPiece(text='ONE ') != TextPiece(text='one ')" in failures
    # Every failed comparison shows both sides; a bare one ends after `AssertionError`.
    assert not re.search(r"^E +AssertionError$", failures, re.MULTILINE)
    assert {line.split("::")[1].partition("[")[0] for line in re.findall(r"^FAILED .*", failures, re.MULTILINE)} == {
        "test_model",
        "test_store",
        "test_records",
    }


def test_a_script_that_ends_too_early_shows_the_prompt_in_the_failure(inner: pytest.Pytester) -> None:
    inner.makepyfile(API_PROGRAM.replace(', says("7 degrees.")', ""))
    result = inner.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*scripted model: the script has no decision reply for call 2; it answers 1 of decision;*rain in Oslo*"]
    )


def test_the_tests_of_the_testing_page_pass(inner: pytest.Pytester) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "test-an-agent.md"
    fences = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    inner.makepyfile("\n\n".join(fences))
    outcomes = inner.runpytest_subprocess().parseoutcomes()
    assert outcomes.keys() == {"passed", "skipped"}
    assert (outcomes["skipped"], outcomes["passed"] > 80) == (1, True)


def test_the_plug_in_loads_little_before_a_test_needs_it() -> None:
    code = """
import sys, pytest
before = set(sys.modules)
import timeloom.pytest_plugin
print(*sorted(name for name in set(sys.modules) - before))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["timeloom", "timeloom.pytest_plugin"]
