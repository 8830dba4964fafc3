"""Every model of the package keeps the contract that the package ships."""

import asyncio

import pytest
import uvloop

from timeloom.ports.model import Model
from timeloom.providers.anthropic.model import AnthropicModel
from timeloom.providers.openai.model import OpenAIModel
from timeloom.providers.settings import ModelSettings, Timeouts
from timeloom.testing.model_contract import (
    HTTP_CONTRACT,
    MODEL_CONTRACT,
    Check,
    HttpCheck,
    HttpHarness,
    over_http,
    over_script,
)
from timeloom.testing.model_endpoint.anthropic import AnthropicDialect
from timeloom.testing.model_endpoint.openai import OpenAIDialect


def anthropic(url: str, key: str, timeouts: Timeouts) -> Model:
    return AnthropicModel("claude-sonnet-4-5", ModelSettings(base_url=url, key=key, timeouts=timeouts))


def openai(url: str, key: str, timeouts: Timeouts) -> Model:
    return OpenAIModel("some-model", ModelSettings(base_url=f"{url}/v1", key=key, timeouts=timeouts))


STAGES = {
    "anthropic": HttpHarness(AnthropicDialect(), anthropic),
    "openai": HttpHarness(OpenAIDialect(), openai),
}


@pytest.mark.parametrize("check", MODEL_CONTRACT, ids=lambda check: check.__name__)
def test_the_scripted_model_keeps_the_contract(check: Check) -> None:
    asyncio.run(check(over_script))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("check", MODEL_CONTRACT, ids=lambda check: check.__name__)
def test_models_behind_http_keep_the_contract(check: Check, stage: str) -> None:
    asyncio.run(check(over_http(STAGES[stage])))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("check", HTTP_CONTRACT, ids=lambda check: check.__name__)
def test_models_behind_http_bear_what_services_send(check: HttpCheck, stage: str) -> None:
    asyncio.run(check(STAGES[stage]))


@pytest.mark.parametrize("check", HTTP_CONTRACT, ids=lambda check: check.__name__)
def test_models_bear_the_same_where_the_environment_names_a_proxy(
    check: HttpCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fake service itself is excepted: what is tested is the client that knows proxies.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    asyncio.run(check(STAGES["openai"]))


@pytest.mark.parametrize("check", HTTP_CONTRACT, ids=lambda check: check.__name__)
def test_models_bear_the_same_on_uvloop(check: HttpCheck) -> None:
    uvloop.run(check(STAGES["openai"]))
