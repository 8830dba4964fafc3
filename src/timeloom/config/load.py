"""Loads the settings of this process from its command line, environment and settings file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from timeloom.config.catalogue import CONFIG_NAME, CONFIG_OPTION, CONFIG_VARIABLE, SPEC_BY_KEY, build_settings
from timeloom.config.errors import ConfigError
from timeloom.config.resolve import LEVELS, LoadedSettings, SettingSources, resolve, resolve_value
from timeloom.config.toml_file import ConfigFile, read_config, read_text

MAX_INSTRUCTIONS_BYTES: Final = 256 * 1024
"""Largest instructions file. It is sent with every request, so a larger one is an expensive mistake."""


def gather_sources(
    command_line: Mapping[str, str],
    config: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> SettingSources:
    """Return all sources; the file is `config`, else TIMELOOM_CONFIG, else `timeloom.toml` in the folder."""
    environ = os.environ if environ is None else environ
    return SettingSources(
        command_line=command_line, environ=environ, file=_read_file(config, environ, folder or Path())
    )


def load_settings(sources: SettingSources) -> LoadedSettings:
    """Return the resolved settings; the text of `instructions_file` becomes `instructions`."""
    loaded = resolve(sources)
    settings, origins = loaded.settings, loaded.origins
    path = settings.instructions_file
    if path is None:
        return loaded
    text, file = origins["instructions"], origins["instructions_file"]
    if settings.instructions and text.level == file.level:
        detail = f"{text.place} and {file.place} both set the instructions; remove one"
        raise ConfigError("setting_invalid", detail)
    if LEVELS.index(text.level) > LEVELS.index(file.level):
        return loaded
    instructions = read_text(path, MAX_INSTRUCTIONS_BYTES)
    return msgspec.structs.replace(
        loaded,
        settings=msgspec.structs.replace(settings, instructions=instructions),
        origins={**origins, "instructions": file},
    )


def load_data_dir(sources: SettingSources) -> Path:
    """Return the data folder, even if other settings are invalid."""
    return build_settings({"data_dir": resolve_value(SPEC_BY_KEY["data_dir"], sources).value}).data_dir


def _read_file(config: str | None, environ: Mapping[str, str], folder: Path) -> ConfigFile | None:
    named = environ.get(CONFIG_VARIABLE) or None if config is None else config
    if named is None:
        found = folder / CONFIG_NAME
        return read_config(found, is_explicit=False) if _exists(found) else None
    if not named or "\0" in named:
        raise ConfigError("config_unreadable", f"{CONFIG_OPTION} or {CONFIG_VARIABLE} must name a file")
    return read_config(folder / named, is_explicit=True)


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except OSError:
        # Treat it as present: reading it then reports the error.
        return True
