"""Settings: precedence of their sources, and errors for invalid values."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.config import TYPED, assert_typed, parse_file, resolve_settings
from tests.harness.repository import ROOT
from timeloom.app import AgentSettings, build_turn_runner, open_session
from timeloom.config.catalogue import SETTING_SPECS, SPEC_BY_KEY, SettingSpec, describe_how_to_set, get_value
from timeloom.config.errors import ConfigError
from timeloom.config.models import model_settings
from timeloom.config.parse_value import allowed_words, describe_expected, to_printable
from timeloom.config.resolve import SettingSources, resolve, resolve_value
from timeloom.config.sections.execution import ExecutionProfile
from timeloom.config.settings import Settings
from timeloom.core.blocks import ConversationStarted
from timeloom.core.policy.next_step import TurnLimits
from timeloom.core.render.editions import FIRST_EDITION, THIRD_EDITION
from timeloom.ports.model import Model, ModelEvent, ModelRequest
from timeloom.providers.registry import open_model
from timeloom.providers.settings import ModelSettings, Price, Timeouts
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel
from timeloom.tools.react.read import ReadLimits


def refusal(sources: SettingSources) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(sources)
    return f"{caught.value} [{caught.value.code}]"


class Said(NamedTuple):
    """One value, as text, as TOML and typed."""

    text: str
    toml: str
    value: object


SAMPLE_WORDS = {
    "server.allow_origins": ("https://a.example", "http://localhost:3000"),
    "server.oidc.algorithms": ("ES256", "EdDSA"),
}
"""Two values for each list whose items have a special form."""


def sample(row: SettingSpec, number: int) -> Said:
    """A value that the setting takes, another for every number as far as it takes several."""
    if words := allowed_words(row):
        word = words[number % len(words)]
        return Said(word, word, int(word)) if isinstance(row.default, int) else Said(word, f'"{word}"', word)
    match row.default:
        case bool():
            said = "true" if number % 2 else "false"
            return Said(said, said, said == "true")
        case _ if row.key == "execution.runtime.network_mode":
            return Said(f"text{number}", f'"text{number}"', f"text{number}")
        case int() | float() | "none" as default:
            return sample_number(default, number)
        case tuple() if row.key in SAMPLE_WORDS:
            word = SAMPLE_WORDS[row.key][number % 2]
            return Said(word, f'["{word}"]', (word,))
        case tuple():
            return Said(f"a.b{number}, a.*", f'["a.b{number}", "a.*"]', (f"a.b{number}", "a.*"))
        case dict():
            return sample_table(row, number)
        case Path() | None:
            return Said(f"/p{number}", f'"/p{number}"', Path(f"/p{number}"))
        case _ if describe_expected(row).startswith("a URL"):
            return Said(f"http://h{number}", f'"http://h{number}"', f"http://h{number}")
        case _:
            # A reference where only that is accepted.
            text = f"env:K{number}" if describe_expected(row).startswith("a reference") else f"text{number}"
            return Said(text, f'"{text}"', text)


def sample_table(row: SettingSpec, number: int) -> Said:
    name = f"m{number}"
    match row.key:
        case "policy.calls_per_turn":
            return Said(f'{{"a.b": {number}}}', f'{{"a.b" = {number}}}', {"a.b": number})
        case "execution.runtime.profiles":
            return Said(f'{{"{name}": {{}}}}', f"{{{name} = {{}}}}", {name: ExecutionProfile()})
        case "protocols":
            return Said(f'{{"{name}": "native"}}', f'{{{name} = "native"}}', {name: "native"})
        case "secrets":
            return Said(f'{{"{name}": "env:K"}}', f'{{{name} = "env:K"}}', {name: "env:K"})
        case _:
            said = f'{{"{name}": {{"input": 1, "output": 2.5}}}}'
            return Said(said, f"{{{name} = {{input = 1, output = 2.5}}}}", {name: Price(input=1, output=2.5)})


def sample_number(default: object, number: int) -> Said:
    match default:
        case "none":
            value: float = number + 1
        case int():
            value = 100 + number
        case float() as share if share < 1:
            value = float(f"0.{number + 1}")
        case _:
            value = number + 0.5
    return Said(str(value), str(value), value)


class Speaker(NamedTuple):
    """A source of a value: how it is set, and the name under which it is reported."""

    place: str
    put: tuple[str, str, object]
    """Into which source, under which name, and what."""


def speakers(row: SettingSpec) -> Iterator[Speaker]:
    """All who may say this setting, the one that counts most in front."""

    number = 0
    if row.help.option:
        yield Speaker(row.help.option, ("command_line", row.key, sample(row, number).text))
    for name in row.help.properties:
        number += 1
        yield Speaker(f"{name} of the bundle", ("bundle", name, sample(row, number).value))
    for name in row.variables:
        number += 1
        yield Speaker(name, ("environ", name, sample(row, number).text))
    for name in row.keys[: 0 if row.help.secret else 1]:
        number += 1
        yield Speaker(f"{name} in timeloom.toml, line 1", ("toml", name, sample(row, number).toml))


CASES = [(row, at) for row in SETTING_SPECS for at in range(len(list(speakers(row))) + 1)]


@pytest.mark.parametrize(
    ("row", "at"), CASES, ids=lambda case: case.key if isinstance(case, SettingSpec) else str(case)
)
def test_of_all_who_say_a_setting_the_first_counts(row: SettingSpec, at: int) -> None:
    """With values from all sources from `at` on, the source at `at` wins."""
    parts: dict[str, dict[str, Any]] = {"command_line": {}, "bundle": {}, "environ": {}, "toml": {}}
    heard = list(speakers(row))[at:]
    for speaker in heard:
        field, name, said = speaker.put
        parts[field][name] = said
    file = parse_file("".join(f"{key} = {said}\n" for key, said in parts.pop("toml").items()))
    loaded = resolve(SettingSources(file=file, **parts))
    number = at if row.help.option else at + 1
    wanted = sample(row, number).value if heard else row.default
    assert get_value(loaded.settings, row.key) == wanted
    assert loaded.origins[row.key].place == (heard[0].place if heard else "default")


def test_every_setting_has_a_sentence_a_variable_and_a_word_for_what_is_expected() -> None:
    for row in SETTING_SPECS:
        assert row.help.doc.endswith("."), row.key
        assert row.variables[0] == "TIMELOOM_" + row.key.upper().replace(".", "_")
        assert describe_expected(row)
    names = [name for row in SETTING_SPECS for name in (*row.variables, *row.keys, *filter(None, [row.help.option]))]
    assert sorted(names) == sorted(set(names))


ROUND_CAPS: list[tuple[dict[str, Any], int]] = [
    ({"option": "1"}, 1),
    ({"config.react.max_iterations": 2}, 2),
    ({"react.max_iterations": 3}, 3),
    ({"TIMELOOM_REACT_MAX_ITERATIONS": "4"}, 4),
    ({"TIMELOOM_MAX_ITERATIONS": "5"}, 5),
    ({"AI_REACT_MAX_ITERATIONS": "6"}, 6),
    ({"toml": "react.max_iterations = 7"}, 7),
    ({}, 15),
]


@pytest.mark.parametrize("at", range(len(ROUND_CAPS)))
@pytest.mark.parametrize("nested", [False, True], ids=["dotted", "nested"])
def test_the_round_cap_is_the_command_lines_then_the_bundles_then_the_machines(at: int, nested: bool) -> None:
    said: dict[str, Any] = {}
    for more, _ in ROUND_CAPS[at:]:
        said |= more
    flat = {name: said[name] for name in said if "." in name}
    bundle: dict[str, Any] = flat
    if nested:
        bundle = {"react": {}, "config": {"react": {}, "other": 1}}
        for name, value in flat.items():
            inside = bundle["config"]["react"] if name.startswith("config") else bundle["react"]
            inside["max_iterations"] = value
    sources = SettingSources(
        command_line={"react.max_iterations": said["option"]} if "option" in said else {},
        bundle=bundle,
        environ={name: said[name] for name in said if name.isupper()},
        file=parse_file(said.get("toml", "")),
    )
    assert resolve(sources).settings.react.max_iterations == ROUND_CAPS[at][1]


def test_a_bundles_property_that_is_something_else_is_refused_by_its_name() -> None:
    said = refusal(SettingSources(bundle={"config": {"react": {"max_iterations": "7"}}}))
    assert "config.react.max_iterations of the bundle is '7'; expected a whole number from 1 to 1000" in said
    assert resolve(SettingSources(bundle={"config": 3, "react": None})).settings.react.max_iterations == 15


def test_the_other_key_of_a_setting_counts_and_both_are_refused() -> None:
    assert resolve_settings("[ai.react]\nmax_iterations = 3").react.max_iterations == 3
    with pytest.raises(ConfigError) as caught:
        parse_file("[react]\nmax_iterations = 4\n[ai.react]\nmax_iterations = 3")
    assert str(caught.value) == (
        "ai.react.max_iterations in timeloom.toml, line 4 sets the same as "
        "react.max_iterations in timeloom.toml, line 2; remove one"
    )


def test_an_empty_variable_is_not_set_and_blanks_around_a_value_do_not_count() -> None:
    assert resolve_settings("model = 'a:b'", TIMELOOM_MODEL="  ").model == "a:b"
    assert resolve_settings(AI_REACT_MAX_ITERATIONS=" 7 ").react.max_iterations == 7


def test_a_value_that_is_overruled_need_not_be_right_unless_it_is_in_the_file() -> None:
    sources = SettingSources(command_line={"react.max_iterations": "2"}, environ={"AI_REACT_MAX_ITERATIONS": "lots"})
    assert resolve(sources).settings.react.max_iterations == 2
    with pytest.raises(ConfigError):
        parse_file("react.max_iterations = 'lots'")


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        (
            "AI_REACT_MAX_ITERATIONS",
            "lots",
            "is 'lots'; expected a whole number from 1 to 1000. Maximum number of rounds in a turn.",
        ),
        ("TIMELOOM_REACT_MAX_ITERATIONS", "0", "is '0'; expected a whole number from 1 to 1000"),
        ("AI_REACT_AGENT_MULTI_ACTION", "on", "is 'on'; expected `off` or `safe_fanout`"),
        ("AI_REACT_AGENT_VERSION", "v2", "is 'v2'; expected `v3`. Version of the agent runtime; only one exists."),
        ("TIMELOOM_TIMEOUTS_CONNECT_S", "nan", "is 'nan'; expected a number above 0, at most 86400"),
        ("MODALITY_MAX_IMAGE_BYTES", "5 MB", "is '5 MB'; expected a whole number from 1 to 104857600"),
        ("OPENAI_BASE_URL", "ftp://me:word@x", "is 'ftp://***@x'; expected a URL that begins with `https://`"),
        ("ANTHROPIC_API_KEY", "sk secret", "is a value that is not shown; expected visible ASCII characters"),
        ("TIMELOOM_MODEL", "a\udcffb", "is 'a\\udcffb'; expected text"),
        ("TIMELOOM_TELEMETRY_CONTENT", "perhaps", "is 'perhaps'; expected `true` or `false`"),
        ("TIMELOOM_DATA_DIR", "a\0b", "is 'a\\x00b'; expected a path"),
        ("TIMELOOM_DATA_DIR", "~nobody-here-has-this-name/x", "expected a path"),
        ("TIMELOOM_PRICES", "{", "is not JSON"),
        ("TIMELOOM_PRICES", "[" * 100_000, "is not JSON"),
        ("TIMELOOM_PRICES", "[]", "is an array; expected a table of `input`"),
        ("TIMELOOM_PRICES", '{"m": {"input": 1}}', ", 'm': Object missing required field `output`; expected a table"),
        ("TIMELOOM_PRICES", '{"m": {"input": 1, "output": -1}}', ", 'm', output is -1.0; expected a table of"),
        ("TIMELOOM_MODEL", "\ud800" + "x" * 200, "x…; expected text"),
    ],
)
def test_a_variable_that_cannot_be_taken_is_named_with_what_it_is_and_what_is_expected(
    variable: str, text: str, words: str
) -> None:
    said = refusal(SettingSources(environ={variable: text}))
    assert said.startswith(variable)
    assert words in said
    assert said.endswith("[setting_invalid]")


def test_a_variable_that_sets_nothing_is_warned_about_with_the_nearest_name() -> None:
    environ = {"TIMELOOM_MODLE": "x", "TIMELOOM_ZZZZZZZZZZ": "", "TIMELOOM_CONFIG": "", "TIMELOOM_HYPOTHESIS": "x"}
    assert resolve(SettingSources(environ=environ)).warnings == (
        "the variable TIMELOOM_MODLE is not a setting; did you mean TIMELOOM_MODEL?",
        "the variable TIMELOOM_ZZZZZZZZZZ is not a setting; `timeloom settings` lists all settings",
    )


def test_what_this_projects_tests_listen_to_is_not_warned_about() -> None:
    tests = ROOT / "tests"
    texts = "".join(path.read_text(encoding="utf-8") for path in tests.rglob("*.py"))
    listened_to = re.findall(r'environ\.get\("(TIMELOOM_[A-Z_]+)"', texts)
    assert listened_to
    assert resolve(SettingSources(environ=dict.fromkeys(listened_to, ""))).warnings == ()


def test_how_a_setting_is_said_can_be_said() -> None:
    assert describe_how_to_set("model") == (
        "the option --model, the variable TIMELOOM_MODEL or `model` in timeloom.toml with --config timeloom.toml"
    )
    said = "the variable TIMELOOM_READ_TOKENS or `read.tokens` in timeloom.toml"
    assert describe_how_to_set("read.tokens") == said


def test_secrets_are_not_shown() -> None:
    settings = resolve_settings(OPENAI_API_KEY="sk-1", OPENAI_BASE_URL="https://me:word@host/v1@x")
    assert to_printable(SPEC_BY_KEY["openai.api_key"], settings.openai.api_key) == "***"
    assert to_printable(SPEC_BY_KEY["anthropic.api_key"], settings.anthropic.api_key) == ""
    assert to_printable(SPEC_BY_KEY["openai.base_url"], settings.openai.base_url) == "https://***@host/v1@x"
    collector = resolve_settings(TIMELOOM_TELEMETRY_ENDPOINT="http://me:word@host").telemetry
    assert to_printable(SPEC_BY_KEY["telemetry.endpoint"], collector.endpoint) == "http://***@host"
    assert to_printable(SPEC_BY_KEY["data_dir"], Path("a\udcff")) == "a\\udcff"
    assert "sk-1" not in repr(settings)
    assert "word" not in repr(settings)


def test_settings_reach_the_conversation() -> None:
    settings = resolve_settings(
        """
        data_dir = "/d"
        instructions = "Be brief."
        react = {max_iterations = 3, multi_action = "safe_fanout"}
        models = {max_output_tokens = 100, thinking_tokens = 50}
        modality = {max_image_bytes = 1, max_doc_bytes = 2}
        read = {text_symbols = 3, tokens = 4, text_bytes = 5, call_tokens = 6}
        """
    )
    assert AgentSettings.from_settings(settings) == AgentSettings(
        data_dir=Path("/d"),
        limits=TurnLimits(max_iterations=3, fanout="safe_fanout"),
        instructions="Be brief.",
        max_output_tokens=100,
        thinking_tokens=50,
        read=ReadLimits(text_symbols=3, tokens=4, text_bytes=5, image_bytes=1, pdf_bytes=2, call_tokens=6),
        edition=THIRD_EDITION,
    )
    assert AgentSettings.from_settings(Settings()) == AgentSettings(data_dir=Path("data"), edition=THIRD_EDITION)
    assert AgentSettings.from_settings(resolve_settings("context.edition = 1")).edition == FIRST_EDITION


class HeardModel(ScriptedModel):
    """A scripted model that records its requests."""

    asked: ModelRequest | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.asked = request
        async for event in super().stream(request):
            yield event


def test_settings_reach_what_a_model_is_asked(tmp_path: Path) -> None:
    model = HeardModel(['<channel:ReactDecisionOutV2>{"action":"complete","final_answer":"Yes."}'])
    toml = "instructions = 'Be brief.'\nmodels = {max_output_tokens = 100, thinking_tokens = 50}"
    setting = msgspec.structs.replace(AgentSettings.from_settings(resolve_settings(toml)), data_dir=tmp_path)

    async def ask() -> None:
        session = await open_session(MemoryStore(), None, ConversationStarted(tenant="t", project="p", user="u"))
        await build_turn_runner(session, model, setting, lambda _: None).run("Ready?")

    asyncio.run(ask())
    assert model.asked
    assert (model.asked.max_output_tokens, model.asked.thinking_tokens) == (100, 50)
    assert "Be brief." in model.asked.system


def test_settings_reach_the_model_of_each_provider() -> None:
    settings = resolve_settings(
        """
        prices = {m = {input = 1, output = 2}}
        timeouts = {connect_s = 1, first_byte_s = 2, between_bytes_s = 3}
        models.window_tokens = 1000
        models.http_client = "httpx2"
        openai.base_url = "http://127.0.0.1:1/v1"
        """,
        OPENAI_API_KEY="sk-o",
        ANTHROPIC_API_KEY="sk-a",
    )
    shared = ModelSettings(
        window_tokens=1000,
        timeouts=Timeouts(connect_s=1, first_byte_s=2, between_bytes_s=3),
        http_client="httpx2",
        prices={"m": Price(input=1, output=2)},
    )

    def with_key(key: str, base_url: str | None = None) -> ModelSettings:
        return msgspec.structs.replace(shared, key=key, base_url=base_url)

    assert model_settings(settings, "openai:x") == with_key("sk-o", "http://127.0.0.1:1/v1")
    assert model_settings(settings, "anthropic:x") == with_key("sk-a")
    assert model_settings(settings, "script:x") == shared
    assert model_settings(Settings(), "openai:x") == ModelSettings()
    model: Model = open_model("openai:x", model_settings(settings, "openai:x"), environ={})
    assert model.window_tokens == 1000


@given(st.sampled_from(SETTING_SPECS), TYPED)
def test_any_text_of_a_variable_is_a_typed_value_or_one_error(row: SettingSpec, text: str) -> None:
    said = SettingSources(environ={row.variables[-1]: text})
    try:
        value = resolve_value(row, said).value
    except ConfigError as error:
        assert row.variables[-1] in str(error)
        assert "\n" not in str(error)
        assert not row.help.secret or len(text) < 4 or text not in str(error)
    else:
        assert_typed(row, value)
