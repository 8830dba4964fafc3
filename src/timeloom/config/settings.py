"""All settings with their types, defaults and help."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from timeloom.config.field_help import SettingHelp
from timeloom.config.sections.context import ContextSettings
from timeloom.config.sections.documents import DocumentSettings
from timeloom.config.sections.execution import ExecutionSettings
from timeloom.config.sections.governance import BudgetSettings, PolicySettings
from timeloom.config.sections.server import ServerSettings
from timeloom.config.sections.storage import RetentionSettings, StorageSettings
from timeloom.config.sections.telemetry import TelemetrySettings
from timeloom.config.sections.web import WebSettings
from timeloom.config.value_types import Seconds, SecretKey, SecretTable, Url
from timeloom.core.blocks.caching import CacheSettings, LifetimeChoice
from timeloom.core.blocks.round import ReplyProtocol
from timeloom.core.policy.fanout import FanoutMode
from timeloom.core.policy.next_step import DEFAULT_MAX_ITERATIONS
from timeloom.providers.settings import HttpClient, Price, Timeouts
from timeloom.runtime.prompt.builder import PromptSettings
from timeloom.tools.react.read import ReadLimits

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
OptionalCount = Annotated[int, Meta(ge=0, le=10_000_000)]
Bytes = Annotated[int, Meta(ge=1, le=100 * 1024 * 1024)]
PriceTable = Annotated[
    Mapping[str, Price],
    Meta(description="a table of `input`, `output`, `cache_read` and `cache_write` for each model, none below 0"),
]
ProtocolTable = Annotated[
    Mapping[str, ReplyProtocol], Meta(description="a table of `channels` or `native` for each model")
]

_READ: Final = ReadLimits()
_TIMEOUTS: Final = Timeouts()
_PROMPT: Final = PromptSettings()
_CACHE: Final = CacheSettings()


class ReactSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds of a turn."""

    max_iterations: Annotated[
        int,
        Meta(ge=1, le=1000),
        SettingHelp(
            "Maximum number of rounds in a turn.",
            option="--max-iterations",
            metavar="N",
            variables=("TIMELOOM_MAX_ITERATIONS", "AI_REACT_MAX_ITERATIONS"),
            keys=("ai.react.max_iterations",),
            properties=("config.react.max_iterations", "react.max_iterations"),
        ),
    ] = DEFAULT_MAX_ITERATIONS
    multi_action: Annotated[
        FanoutMode,
        SettingHelp(
            "Whether one reply may contain several actions.",
            option="--multi-action",
            variables=("TIMELOOM_MULTI_ACTION", "AI_REACT_AGENT_MULTI_ACTION"),
        ),
    ] = "off"
    agent_version: Annotated[
        Literal["v3"],
        SettingHelp("Version of the agent runtime; only one exists.", variables=("AI_REACT_AGENT_VERSION",)),
    ] = "v3"


class ModelsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of all models."""

    window_tokens: Annotated[
        OptionalCount, SettingHelp("Context window: tokens of prompt and reply together; 0 uses the provider's number.")
    ] = 0
    max_output_tokens: Annotated[Count, SettingHelp("Maximum tokens of a reply.")] = _PROMPT.max_output_tokens
    thinking_tokens: Annotated[
        OptionalCount,
        SettingHelp("Thinking tokens before a reply, for providers that support it; 0 turns thinking off."),
    ] = 0
    http_client: Annotated[
        HttpClient,
        SettingHelp(
            "HTTP client for providers: `httpx2`; `direct` is the built-in one and uses no proxy; `auto` is `direct`, "
            "or `httpx2` if the environment names a proxy.",
            option="--http-client",
        ),
    ] = "auto"
    protocol: Annotated[
        ReplyProtocol,
        SettingHelp(
            "How models state their decisions: `channels` in text, or `native` through the provider's tool calling "
            "(`anthropic:`, `openai:` and `bedrock:`). `protocols` sets it for single models."
        ),
    ] = "channels"


class TimeoutSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts of model services."""

    connect_s: Annotated[Seconds, SettingHelp("Timeout for connecting to a model service, in seconds.")] = (
        _TIMEOUTS.connect_s
    )
    first_byte_s: Annotated[
        Seconds,
        SettingHelp("Timeout for the first event of a model's reply, in seconds. Comments are not events."),
    ] = _TIMEOUTS.first_byte_s
    between_bytes_s: Annotated[
        Seconds,
        SettingHelp("Timeout between two events of a model's reply, in seconds. Comments are not events."),
    ] = _TIMEOUTS.between_bytes_s
    call_s: Annotated[Seconds, SettingHelp("Timeout of a whole model call, until its last event, in seconds.")] = (
        _TIMEOUTS.call_s
    )


class AnthropicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Access to models named `anthropic:<id>`."""

    api_key: Annotated[
        SecretKey,
        SettingHelp("API key for Anthropic, or a reference to it.", variables=("ANTHROPIC_API_KEY",), secret=True),
    ] = ""
    base_url: Annotated[
        Url,
        SettingHelp(
            "Base URL for `anthropic:<id>`, without `/v1`; empty uses Anthropic's service.",
            variables=("ANTHROPIC_BASE_URL",),
        ),
    ] = ""

    def __repr__(self) -> str:
        return "AnthropicSettings(...)"


class OpenAISettings(msgspec.Struct, frozen=True, kw_only=True):
    """Access to models named `openai:<id>`."""

    api_key: Annotated[
        SecretKey,
        SettingHelp(
            "API key for OpenAI or a compatible service, or a reference to it.",
            variables=("OPENAI_API_KEY",),
            secret=True,
        ),
    ] = ""
    base_url: Annotated[
        Url,
        SettingHelp(
            "Base URL for `openai:<id>`, with `/v1`; empty uses OpenAI's service.", variables=("OPENAI_BASE_URL",)
        ),
    ] = ""

    def __repr__(self) -> str:
        return "OpenAISettings(...)"


class ModalitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of images and documents that are shown to a model."""

    max_image_bytes: Annotated[
        Bytes, SettingHelp("Largest image that `react.read` shows a model.", variables=("MODALITY_MAX_IMAGE_BYTES",))
    ] = _READ.image_bytes
    max_doc_bytes: Annotated[
        Bytes, SettingHelp("Largest PDF that `react.read` shows a model.", variables=("MODALITY_MAX_DOC_BYTES",))
    ] = _READ.pdf_bytes


class ReadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of `react.read`."""

    text_symbols: Annotated[Count, SettingHelp("Maximum characters of a text that `react.read` shows per path.")] = (
        _READ.text_symbols
    )
    tokens: Annotated[Count, SettingHelp("Maximum tokens of a text that `react.read` shows per path.")] = _READ.tokens
    text_bytes: Annotated[Bytes, SettingHelp("Largest text file that `react.read` opens.")] = _READ.text_bytes
    call_tokens: Annotated[Count, SettingHelp("Maximum tokens that `react.read` shows per call.")] = _READ.call_tokens


class CachingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt caching at the provider, and the part of a prompt that may still be hidden."""

    min_rounds: Annotated[
        Annotated[int, Meta(ge=0, le=1000)],
        SettingHelp("Minimum number of rounds before a conversation gets a pre-tail cache point."),
    ] = _CACHE.min_rounds
    offset_rounds: Annotated[
        Annotated[int, Meta(ge=0, le=1000)],
        SettingHelp("Number of rounds after the pre-tail cache point, which can still be hidden."),
    ] = _CACHE.offset_rounds
    editable_tail_tokens: Annotated[
        OptionalCount, SettingHelp("Number of tokens at the end of a prompt whose blocks can be hidden.")
    ] = _CACHE.editable_tail_tokens
    lifetime: Annotated[
        LifetimeChoice,
        SettingHelp("Lifetime of cache points; `auto` picks the cheaper one from the pauses in the conversation."),
    ] = _CACHE.lifetime


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings with their values."""

    data_dir: Annotated[
        Path, SettingHelp("Folder that contains the conversations.", option="--data-dir", metavar="FOLDER")
    ] = Path("data")
    model: Annotated[
        str,
        SettingHelp(
            "Model of conversations: `anthropic:<id>`, `openai:<id>`, `local` or `script:<file.yaml>`; else `local`.",
            option="--model",
            metavar="NAME",
        ),
    ] = ""
    title_model: Annotated[
        str,
        SettingHelp(
            "Model that writes titles; empty uses the conversation's model, `none` uses the message's first words.",
            option="--title-model",
            metavar="NAME",
        ),
    ] = ""
    summary_model: Annotated[
        str,
        SettingHelp(
            "Model that writes summaries; empty uses the conversation's model, `none` works without a model.",
            option="--summary-model",
            metavar="NAME",
        ),
    ] = ""
    instructions: Annotated[str, SettingHelp("Additional instructions for the assistant.")] = ""
    instructions_file: Annotated[
        Path | None,
        SettingHelp("A text file that contains `instructions`.", option="--instructions-file", metavar="FILE"),
    ] = None
    prices: Annotated[
        PriceTable,
        SettingHelp("US dollars per million tokens by model; overrides the price library. Names may end in `*`."),
    ] = msgspec.field(default_factory=dict[str, Price])
    protocols: Annotated[
        ProtocolTable,
        SettingHelp("`channels` or `native` by model; overrides `models.protocol`. Names may end in `*`."),
    ] = msgspec.field(default_factory=dict[str, ReplyProtocol])
    secrets: Annotated[
        SecretTable,
        SettingHelp('Secrets for the code of all bundles, by name: `get_secret("NAME")`.', secret=True),
    ] = msgspec.field(default_factory=dict[str, str])
    react: ReactSettings = ReactSettings()
    policy: PolicySettings = PolicySettings()
    budget: BudgetSettings = BudgetSettings()
    models: ModelsSettings = ModelsSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    anthropic: AnthropicSettings = AnthropicSettings()
    openai: OpenAISettings = OpenAISettings()
    modality: ModalitySettings = ModalitySettings()
    read: ReadSettings = ReadSettings()
    cache: CachingSettings = CachingSettings()
    context: ContextSettings = ContextSettings()
    execution: ExecutionSettings = ExecutionSettings()
    server: ServerSettings = ServerSettings()
    storage: StorageSettings = StorageSettings()
    retention: RetentionSettings = RetentionSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    web: WebSettings = WebSettings()
    documents: DocumentSettings = DocumentSettings()
