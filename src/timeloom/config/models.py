"""Selects the settings of a model by its name."""

from collections.abc import Mapping

from timeloom.config.settings import Settings
from timeloom.core.blocks.round import ReplyProtocol
from timeloom.providers.settings import ModelSettings, Timeouts


def model_settings(settings: Settings, name: str) -> ModelSettings:
    """Return the key, base URL, window, timeouts, HTTP client and prices for this model."""
    match name.partition(":")[0]:
        case "anthropic":
            key, base_url = settings.anthropic.api_key, settings.anthropic.base_url
        case "openai":
            key, base_url = settings.openai.api_key, settings.openai.base_url
        case _:
            key = base_url = ""
    return ModelSettings(
        key=key or None,
        base_url=base_url or None,
        window_tokens=settings.models.window_tokens or None,
        timeouts=Timeouts(
            connect_s=settings.timeouts.connect_s,
            first_byte_s=settings.timeouts.first_byte_s,
            between_bytes_s=settings.timeouts.between_bytes_s,
            call_s=settings.timeouts.call_s,
        ),
        http_client=settings.models.http_client,
        prices=settings.prices,
    )


def protocol_of(model: str, default: ReplyProtocol, protocols: Mapping[str, ReplyProtocol]) -> ReplyProtocol:
    """Return the protocol of a model: of its name, else of the longest name with `*` that fits, else the default."""
    if model in protocols:
        return protocols[model]
    fitting = [name for name in protocols if name.endswith("*") and model.startswith(name[:-1])]
    return protocols[max(fitting, key=len)] if fitting else default
