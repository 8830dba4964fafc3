"""Secret settings: references are accepted where values are not, and resolved where the secret is needed."""

from pathlib import Path

import pytest

from tests.harness.config import parse_file, resolve_settings
from timeloom.config.catalogue import SETTING_SPECS, SPEC_BY_KEY
from timeloom.config.errors import ConfigError
from timeloom.config.models import model_settings
from timeloom.config.parse_value import to_printable
from timeloom.config.resolve import SettingSources, resolve
from timeloom.config.settings import Settings
from timeloom.config.signing import open_signer
from timeloom.platform.secrets import SecretError
from timeloom.providers.registry import open_model
from timeloom.providers.settings import ModelSettings

SECRET_KEYS = [row.key for row in SETTING_SPECS if row.help.secret and not isinstance(row.default, dict)]


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_named_file_may_refer_to_a_secret_and_not_contain_it(key: str) -> None:
    for reference in ("env:MY_SECRET", "command:pass show 'the key'", "file:/run/secrets/key"):
        file = parse_file(f'{key} = "{reference}"')
        assert file.values[key].value == reference
        assert to_printable(SPEC_BY_KEY[key], file.values[key].value) == reference
    with pytest.raises(ConfigError, match="write a reference"):
        parse_file(f'{key} = "planted-value-1"')


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_file_that_nobody_named_may_not_refer_to_a_secret(key: str) -> None:
    with pytest.raises(ConfigError, match="found in this folder and not named"):
        parse_file(f'{key} = "command:touch /tmp/owned"', named=False)


def test_a_path_in_a_reference_is_relative_to_the_file() -> None:
    loaded = resolve(SettingSources(file=parse_file('openai.api_key = "file:keys/openai"')))
    assert loaded.settings.openai.api_key.startswith("file:/")
    assert loaded.settings.openai.api_key.endswith("/keys/openai")


def test_a_model_gets_the_secret_of_its_reference(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-from-a-file\n")
    settings = resolve_settings(OPENAI_API_KEY=f"file:{tmp_path}/key")
    assert model_settings(settings, "openai:gpt-5-mini").key == f"file:{tmp_path}/key"
    model = open_model("openai:gpt-5-mini", model_settings(settings, "openai:gpt-5-mini"), environ={})
    assert "sk-from-a-file" not in repr(model)


@pytest.mark.parametrize(
    ("name", "variable"),
    [("groq:x", "GROQ_API_KEY"), ("anthropic:x", "ANTHROPIC_API_KEY"), ("openai:x", "OPENAI_API_KEY")],
)
def test_a_key_variable_may_contain_a_reference(name: str, variable: str) -> None:
    open_model(name, ModelSettings(), environ={variable: "env:OTHER", "OTHER": "gsk-1234567"})
    with pytest.raises(SecretError, match="the secret 'env:OTHER' cannot be read: the variable is not set"):
        open_model(name, ModelSettings(), environ={variable: "env:OTHER"})


def test_heads_are_signed_with_a_key_from_a_reference(tmp_path: Path) -> None:
    settings = resolve_settings(TIMELOOM_STORAGE_SIGNING_KEY="command:printf no-pem-at-all")
    with pytest.raises(ValueError, match=r"the secret of storage\.signing_key is no private Ed25519 key"):
        open_signer(settings)
    both = resolve_settings(TIMELOOM_STORAGE_SIGNING_KEY="env:X", TIMELOOM_STORAGE_SIGNING_KEY_FILE=str(tmp_path))
    with pytest.raises(ConfigError, match="remove one"):
        open_signer(both)
    assert open_signer(Settings()) is None
