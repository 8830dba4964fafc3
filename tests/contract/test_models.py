"""Every model of the package keeps the contract that the package ships."""

import asyncio
from functools import partial

import pytest
import uvloop

from timeloom.ports.model import Model
from timeloom.providers.anthropic.model import AnthropicModel
from timeloom.providers.openai.model import OpenAIModel
from timeloom.providers.settings import HttpClient, ModelSettings, Timeouts
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
from timeloom.testing.native_model import NativeScriptedModel


def anthropic(client: HttpClient) -> HttpHarness:
    def open_model(url: str, key: str, timeouts: Timeouts) -> Model:
        settings = ModelSettings(base_url=url, key=key, timeouts=timeouts, http_client=client)
        return AnthropicModel("claude-sonnet-4-5", settings)

    return HttpHarness(AnthropicDialect(), open_model)


def openai(client: HttpClient) -> HttpHarness:
    def open_model(url: str, key: str, timeouts: Timeouts) -> Model:
        settings = ModelSettings(base_url=f"{url}/v1", key=key, timeouts=timeouts, http_client=client)
        return OpenAIModel("some-model", settings)

    return HttpHarness(OpenAIDialect(), open_model)


CLIENTS: tuple[HttpClient, ...] = ("direct", "httpx2")
STAGES = {f"{stage.__name__}-{client}": stage(client) for stage in (anthropic, openai) for client in CLIENTS}


@pytest.mark.parametrize("check", MODEL_CONTRACT, ids=lambda check: check.__name__)
def test_the_scripted_model_keeps_the_contract(check: Check) -> None:
    asyncio.run(check(over_script))


@pytest.mark.parametrize("check", MODEL_CONTRACT, ids=lambda check: check.__name__)
def test_the_scripted_model_with_native_calls_keeps_the_contract(check: Check) -> None:
    asyncio.run(check(partial(over_script, open_scripted=NativeScriptedModel)))


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
    asyncio.run(check(openai("auto")))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("check", HTTP_CONTRACT, ids=lambda check: check.__name__)
def test_models_bear_the_same_on_uvloop(check: HttpCheck, client: HttpClient) -> None:
    uvloop.run(check(openai(client)))
