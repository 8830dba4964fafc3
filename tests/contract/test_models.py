"""Every model of the package keeps the contract that the package ships."""

import asyncio
from functools import partial

import pytest
import uvloop

from timeloom.ports.model import Model
from timeloom.providers.anthropic.model import AnthropicModel
from timeloom.providers.bedrock.model import BedrockModel
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
from timeloom.testing.model_endpoint.bedrock import BedrockDialect
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


def bedrock(client: HttpClient) -> HttpHarness:
    def open_model(url: str, key: str, timeouts: Timeouts) -> Model:
        settings = ModelSettings(base_url=url, key=key, timeouts=timeouts, http_client=client)
        return BedrockModel("anthropic.claude-sonnet-4-5-20250929-v1:0", settings, environ={})

    return HttpHarness(BedrockDialect(), open_model, media_type="application/vnd.amazon.eventstream")


SSE_CHECKS = {
    "however_the_bytes_are_cut_the_reply_is_the_same",
    "comments_and_unknown_events_are_passed_over",
    "comments_do_not_keep_a_silent_reply_alive",
    "bytes_that_are_not_utf8_are_replaced",
    "what_is_not_json_is_refused",
    "a_stream_without_content_is_bounded_by_the_tokens_of_its_reply",
}
"""Checks whose responses have lines of server-sent events; `test_bedrock.py` has their like for binary frames."""

CLIENTS: tuple[HttpClient, ...] = ("direct", "httpx2")
STAGES = {f"{stage.__name__}-{client}": stage(client) for stage in (anthropic, openai, bedrock) for client in CLIENTS}


def applies(check: HttpCheck, stage: str) -> bool:
    return not stage.startswith("bedrock") or check.__name__ not in SSE_CHECKS


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


@pytest.mark.parametrize(
    ("check", "stage"),
    [(check, stage) for check in HTTP_CONTRACT for stage in STAGES if applies(check, stage)],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
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
