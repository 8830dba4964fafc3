"""Harness for settings: parses settings from text and generates texts that a user may type."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from hypothesis import strategies as st

from timeloom.config.catalogue import SettingSpec
from timeloom.config.resolve import SettingSources, resolve
from timeloom.config.sections.execution import ExecutionProfile
from timeloom.config.settings import Settings
from timeloom.config.toml_file import ConfigFile, parse_config
from timeloom.providers.settings import Price

TYPED = (
    st.text()
    | st.from_regex(r"-?[0-9]{1,30}(\.[0-9]*)?", fullmatch=True)
    | st.sampled_from(
        [
            *("off", "v3", "nan", "-inf", "1e999", "null", "true", "none", "~", "~x", "{}", '{"m": 1}', '{"a.b": 1}'),
            *("a.b, a.*", "http://", "https://x y"),
        ]
    )
)


FOLDER = Path("/somewhere")


def parse_file(text: str, *, named: bool = True) -> ConfigFile:
    return parse_config(text, "timeloom.toml", FOLDER, is_explicit=named)


def resolve_settings(toml: str = "", **environ: str) -> Settings:
    return resolve(SettingSources(environ=environ, file=parse_file(toml))).settings


def assert_typed(row: SettingSpec, value: object) -> None:
    """Assert that the value has the type of its setting."""
    if isinstance(value, Path):
        assert isinstance(row.default, Path | None)
        assert str(value)
    elif isinstance(value, Mapping):
        kind = {"prices": Price, "policy.calls_per_turn": int, "execution.runtime.profiles": ExecutionProfile}[row.key]
        assert msgspec.convert(msgspec.to_builtins(value), dict[str, kind]) == value
    else:
        assert msgspec.convert(value, row.type) == value
