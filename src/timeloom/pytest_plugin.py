"""The pytest plug-in: agents with a fixed clock and ids, and a guard against calls of real models.

It imports the parts of timeloom when a test first uses them. The contracts of `timeloom.testing` are rewritten as test
modules are, so that a failed check shows its values.
"""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast, overload

import pytest

if TYPE_CHECKING:
    from timeloom import Agent, Budgets, Model, Policy, Settings, Store, Tool
    from timeloom.testing import CountingIds, FixedClock, Step

MARKER = "timeloom_real_models"

ALLOW_OPTION = "timeloom_real_models"

HINT = f"use a scripted model, or mark the test with @pytest.mark.{MARKER}"

T = TypeVar("T")

pytest.register_assert_rewrite("timeloom.testing")


class AgentOptions(TypedDict, total=False):
    """The options of `Agent` that an agent of a test may have."""

    tools: "Sequence[Tool]"
    instructions: str
    policies: "Sequence[Policy] | None"
    budgets: "Budgets | None"
    store: "str | Path | Store | None"
    react: bool | Sequence[str]
    settings: "Settings | None"
    name: str


class AgentFactory:
    """Makes the agents of one test. They share a clock and ids, so that a test that runs again makes the same log."""

    def __init__(self, clock: "FixedClock", ids: "CountingIds") -> None:
        self._clock = clock
        self._ids = ids

    @overload
    def __call__(self, model: "Sequence[str | Step] | Model", **options: Unpack[AgentOptions]) -> "Agent[str]": ...

    @overload
    def __call__(
        self, model: "Sequence[str | Step] | Model", *, output: type[T], **options: Unpack[AgentOptions]
    ) -> "Agent[T]": ...

    def __call__(
        self, model: "Sequence[str | Step] | Model", *, output: Any = str, **options: Unpack[AgentOptions]
    ) -> "Agent[Any]":
        """Return an agent whose model gives these replies, or with this model; the options are those of `Agent`.

        Without settings, it has the default ones, whatever the environment says, and runs no programs.
        """
        from timeloom import Agent  # noqa: PLC0415 - test runs that use no agent start faster

        options.setdefault("settings", _settings_without_programs())
        scripted = _to_model(model)
        return Agent(scripted, output=output, clock=self._clock, ids=self._ids, **options)


@pytest.fixture
def timeloom_clock() -> "FixedClock":
    """The clock of the test's agents: it stands at 2026-01-01 in UTC until `advance(seconds)`."""
    from timeloom.testing import FixedClock  # noqa: PLC0415 - test runs that use no agent start faster

    return FixedClock()


@pytest.fixture
def timeloom_ids() -> "CountingIds":
    """The ids of the test's agents, which count."""
    from timeloom.testing import CountingIds  # noqa: PLC0415 - test runs that use no agent start faster

    return CountingIds()


@pytest.fixture
def timeloom_agent(timeloom_clock: "FixedClock", timeloom_ids: "CountingIds") -> AgentFactory:
    """Make an agent from replies: `timeloom_agent([call("tools.weather"), says("Rain.")], tools=[weather])`."""
    return AgentFactory(timeloom_clock, timeloom_ids)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting that allows real models in all tests."""
    parser.addini(ALLOW_OPTION, f"allow calls of real models in all tests, as the marker {MARKER} does", type="bool")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", f"{MARKER}: may call real models; without it timeloom refuses such calls")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    """Forbid real models while a test and its fixtures run, unless the marker or the setting allows them."""
    from timeloom.providers.real_models import allow_real_models, forbid_real_models  # noqa: PLC0415 - as above

    allowed = item.get_closest_marker(MARKER) is not None or bool(item.config.getini(ALLOW_OPTION))
    with allow_real_models() if allowed else forbid_real_models(HINT):
        yield


def _to_model(model: "Sequence[str | Step] | Model") -> "Model":
    from timeloom.testing import ScriptedModel  # noqa: PLC0415 - test runs that use no agent start faster

    return cast("Model", model) if hasattr(model, "stream") else ScriptedModel(cast("Sequence[str | Step]", model))


def _settings_without_programs() -> "Settings":
    """Return the default settings: neither the environment nor a settings file of the machine changes a test."""
    from msgspec.structs import replace  # noqa: PLC0415 - test runs that use no agent start faster

    from timeloom import Settings  # noqa: PLC0415 - test runs that use no agent start faster

    settings = Settings()
    runtime = replace(settings.execution.runtime, enabled=False)
    return replace(settings, execution=replace(settings.execution, runtime=runtime))
