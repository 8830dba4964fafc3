"""The settings: every one with its type, its default and what is said about it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from timeloom.config.field_help import About
from timeloom.config.sections.context import ContextSettings
from timeloom.config.sections.execution import ExecutionSettings
from timeloom.config.sections.governance import BudgetSettings, PolicySettings
from timeloom.config.sections.server import ServerSettings
from timeloom.config.sections.telemetry import TelemetrySettings
from timeloom.config.value_types import Seconds, Url
from timeloom.core.blocks.caching import CacheSettings, LifetimeChoice
from timeloom.core.policy.fanout import FanoutMode
from timeloom.core.policy.next_step import DEFAULT_MAX_ITERATIONS
from timeloom.providers.settings import Price, Timeouts
from timeloom.runtime.prompt.builder import PromptSettings
from timeloom.tools.react.read import ReadLimits

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
OptionalCount = Annotated[int, Meta(ge=0, le=10_000_000)]
Bytes = Annotated[int, Meta(ge=1, le=100 * 1024 * 1024)]
Key = Annotated[str, Meta(pattern=r"\A[!-~]*\Z", description="a key of visible ASCII characters without spaces")]
PriceTable = Annotated[
    Mapping[str, Price],
    Meta(description="a table of `input`, `output`, `cache_read` and `cache_write` for each model, none below 0"),
]

_READ: Final = ReadLimits()
_TIMEOUTS: Final = Timeouts()
_PROMPT: Final = PromptSettings()
_CACHE: Final = CacheSettings()


class ReactSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the rounds of a turn run."""

    max_iterations: Annotated[
        int,
        Meta(ge=1, le=1000),
        About(
            "Most rounds of a turn.",
            option="--max-iterations",
            metavar="N",
            variables=("TIMELOOM_MAX_ITERATIONS", "AI_REACT_MAX_ITERATIONS"),
            keys=("ai.react.max_iterations",),
            properties=("config.react.max_iterations", "react.max_iterations"),
        ),
    ] = DEFAULT_MAX_ITERATIONS
    multi_action: Annotated[
        FanoutMode,
        About(
            "Whether one reply may hold several actions.",
            option="--multi-action",
            variables=("TIMELOOM_MULTI_ACTION", "AI_REACT_AGENT_MULTI_ACTION"),
        ),
    ] = "off"
    agent_version: Annotated[
        Literal["v3"], About("Which runtime runs the agent; there is one.", variables=("AI_REACT_AGENT_VERSION",))
    ] = "v3"


class ModelsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every model that is asked."""

    window_tokens: Annotated[
        OptionalCount, About("Tokens that prompt and reply have together; 0 takes the provider's own number.")
    ] = 0
    max_output_tokens: Annotated[Count, About("Most tokens of a reply.")] = _PROMPT.max_output_tokens
    thinking_tokens: Annotated[
        OptionalCount,
        About("Tokens that a model may think with before its reply, where its provider has that; 0 is none."),
    ] = 0


class TimeoutSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a model's service may take."""

    connect_s: Annotated[Seconds, About("Seconds until a model's service is reached.")] = _TIMEOUTS.connect_s
    first_byte_s: Annotated[Seconds, About("Seconds until a model's answer begins.")] = _TIMEOUTS.first_byte_s
    between_bytes_s: Annotated[Seconds, About("Seconds between two parts of a model's answer.")] = (
        _TIMEOUTS.between_bytes_s
    )


class AnthropicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How models named `anthropic:<id>` are reached."""

    api_key: Annotated[Key, About("Key for Anthropic.", variables=("ANTHROPIC_API_KEY",), secret=True)] = ""
    base_url: Annotated[
        Url,
        About(
            "Where `anthropic:<id>` is asked, without `/v1`; empty is Anthropic itself.",
            variables=("ANTHROPIC_BASE_URL",),
            directs_key=True,
        ),
    ] = ""

    def __repr__(self) -> str:
        return "AnthropicSettings(...)"


class OpenAISettings(msgspec.Struct, frozen=True, kw_only=True):
    """How models named `openai:<id>` are reached."""

    api_key: Annotated[
        Key, About("Key for OpenAI or a compatible service.", variables=("OPENAI_API_KEY",), secret=True)
    ] = ""
    base_url: Annotated[
        Url,
        About(
            "Where `openai:<id>` is asked, with `/v1`; empty is OpenAI itself.",
            variables=("OPENAI_BASE_URL",),
            directs_key=True,
        ),
    ] = ""

    def __repr__(self) -> str:
        return "OpenAISettings(...)"


class ModalitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How large the images and documents are that a model is shown."""

    max_image_bytes: Annotated[
        Bytes, About("Largest image that `react.read` shows a model.", variables=("MODALITY_MAX_IMAGE_BYTES",))
    ] = _READ.image_bytes
    max_doc_bytes: Annotated[
        Bytes, About("Largest PDF that `react.read` shows a model.", variables=("MODALITY_MAX_DOC_BYTES",))
    ] = _READ.pdf_bytes


class ReadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `react.read` shows at most."""

    text_symbols: Annotated[Count, About("Most symbols of a text that one path of `react.read` shows.")] = (
        _READ.text_symbols
    )
    tokens: Annotated[Count, About("Most tokens of a text that one path of `react.read` shows.")] = _READ.tokens
    text_bytes: Annotated[Bytes, About("Largest text file that `react.read` opens.")] = _READ.text_bytes
    call_tokens: Annotated[Count, About("Most tokens that one call of `react.read` shows.")] = _READ.call_tokens


class CachingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How prompts are kept at a provider, and what of them may still be hidden."""

    min_rounds: Annotated[
        Annotated[int, Meta(ge=0, le=1000)], About("Fewest rounds of a conversation that has a pre-tail cache point.")
    ] = _CACHE.min_rounds
    offset_rounds: Annotated[
        Annotated[int, Meta(ge=0, le=1000)], About("Rounds that stay behind the pre-tail point and can be hidden.")
    ] = _CACHE.offset_rounds
    editable_tail_tokens: Annotated[
        OptionalCount, About("Tokens at the end of a prompt within which blocks can be hidden.")
    ] = _CACHE.editable_tail_tokens
    lifetime: Annotated[
        LifetimeChoice,
        About("How long cache points last: `auto` takes what costs less by the pauses of the conversation."),
    ] = _CACHE.lifetime


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, each with a value."""

    data_dir: Annotated[Path, About("Folder with the conversations.", option="--data-dir", metavar="FOLDER")] = Path(
        "data"
    )
    model: Annotated[
        str,
        About(
            "Model of conversations: `anthropic:<id>`, `openai:<id>`, `local` or `script:<file.yaml>`; else `local`.",
            option="--model",
            metavar="NAME",
        ),
    ] = ""
    title_model: Annotated[
        str,
        About(
            "Model that names conversations; empty is the conversation's own, `none` takes the message's first words.",
            option="--title-model",
            metavar="NAME",
        ),
    ] = ""
    summary_model: Annotated[
        str,
        About(
            "Model that sums up older parts of conversations; empty is the conversation's own, `none` does without.",
            option="--summary-model",
            metavar="NAME",
        ),
    ] = ""
    instructions: Annotated[str, About("What the assistant is told beside what all assistants are told.")] = ""
    instructions_file: Annotated[
        Path | None,
        About("A text file with `instructions`.", option="--instructions-file", metavar="FILE"),
    ] = None
    prices: Annotated[
        PriceTable,
        About("Dollars for a million tokens by model, before what the price library knows; names may end in `*`."),
    ] = msgspec.field(default_factory=dict[str, Price])
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
    telemetry: TelemetrySettings = TelemetrySettings()
