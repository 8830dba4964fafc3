"""The setting `secrets` takes references by name; no value is accepted, printed or repeated."""

from pathlib import Path

import pytest

from timeloom.config.catalogue import SPEC_BY_KEY
from timeloom.config.errors import ConfigError
from timeloom.config.parse_value import to_printable
from timeloom.config.resolve import SettingSources, resolve
from timeloom.config.toml_file import parse_config

VALUE = "sk-a-real-value-0123456789"


def load(text: str, folder: Path, *, is_explicit: bool = True) -> dict[str, str]:
    file = parse_config(text, "timeloom.toml", folder, is_explicit=is_explicit)
    return dict(resolve(SettingSources(file=file)).settings.secrets)


def test_references_of_a_named_file_start_at_its_folder(tmp_path: Path) -> None:
    text = '[secrets]\nmail = "env:MAIL"\n"services.pay" = "file:keys/pay"\n'
    assert load(text, tmp_path) == {"mail": "env:MAIL", "services.pay": f"file:{tmp_path}/keys/pay"}
    sources = SettingSources(environ={"TIMELOOM_SECRETS": '{"mail": "command:pass mail"}'})
    assert resolve(sources).settings.secrets == {"mail": "command:pass mail"}


@pytest.mark.parametrize("text", [f'secrets.mail = "{VALUE}"', f'secrets = "{VALUE}"', f'secrets.a.b = "{VALUE}"'])
def test_a_value_in_a_file_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="is a secret, and files are easily shared; write a reference") as caught:
        load(text, tmp_path)
    assert VALUE not in str(caught.value)


def test_a_value_in_a_variable_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="a value that is not shown; expected a table of references") as caught:
        resolve(SettingSources(environ={"TIMELOOM_SECRETS": f'{{"mail": "{VALUE}"}}'}))
    assert VALUE not in str(caught.value)


def test_a_found_file_may_not_choose_secrets(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="chooses which secrets the code of bundles reads"):
        load('secrets.mail = "env:MAIL"', tmp_path, is_explicit=False)


def test_references_are_printed() -> None:
    assert to_printable(SPEC_BY_KEY["secrets"], {"mail": "env:MAIL"}) == {"mail": "env:MAIL"}
