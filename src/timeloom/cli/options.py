"""Builds command-line options from the catalogue of settings, and loads the settings of a command."""

import functools
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from timeloom.bundles.registry import BundleRegistry
from timeloom.config.catalogue import (
    CONFIG_NAME,
    CONFIG_OPTION,
    CONFIG_VARIABLE,
    SETTING_SPECS,
    SPEC_BY_KEY,
    SettingSpec,
)
from timeloom.config.errors import ConfigError
from timeloom.config.load import gather_sources, load_data_dir, load_settings
from timeloom.config.parse_value import allowed_words
from timeloom.config.resolve import LoadedSettings, warn_about_unknown_variables
from timeloom.core.codes import CodedError
from timeloom.ports.tool import Tool
from timeloom.tools.modules import load_named_tools

P = ParamSpec("P")
R = TypeVar("R")

SERVER_KEYS: Final = tuple(row.key for row in SETTING_SPECS if row.help.option and row.key.startswith("server."))
"""Settings that are options of `timeloom serve` only."""

OPTION_KEYS: Final = tuple(row.key for row in SETTING_SPECS if row.help.option and row.key not in SERVER_KEYS)
"""Settings that are options of every command that runs conversations."""

_OPTIONS: Final = "timeloom.options"
_TOOLS: Final = "timeloom.tools"
_BUNDLES: Final = "timeloom.bundles"
_CONFIG: Final = "timeloom.config"


class SettingOption(click.Option):
    """The option of a setting: its help names the environment variables, which `config` reads instead of click."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return None


def with_settings(*keys: str) -> Callable[[Callable[Concatenate[LoadedSettings, P], R]], Callable[P, R]]:
    """Add the options of these settings and `--config` to a command, and pass it all settings as first argument."""

    def decorate(run: Callable[Concatenate[LoadedSettings, P], R]) -> Callable[P, R]:
        @functools.wraps(run)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return run(_load_settings(click.get_current_context()), *args, **kwargs)

        decorated: Callable[P, R] = _config_option(call)
        for key in reversed(keys):
            decorated = _setting_option(SPEC_BY_KEY[key], _store_option(key))(decorated)
        return decorated

    return decorate


def data_dir_option(run: Callable[P, R]) -> Callable[P, R]:
    """Add `--data-dir` and `--config` to a command, and pass it the folder as `data_dir`."""
    return _setting_option(SPEC_BY_KEY["data_dir"], _resolve_data_dir, expose_value=True)(_config_option(run))


def command_line_options() -> list[str]:
    """Return the setting options of this command line, to print a follow-up command with the same settings."""
    context = click.get_current_context()
    typed: dict[str, str] = context.meta.get(_OPTIONS, {})
    words = [word for key, value in typed.items() for word in (SPEC_BY_KEY[key].help.option, value)]
    words += [word for name in context.meta.get(_TOOLS, ()) for word in ("--tools", name)]
    words += [word for name in context.meta.get(_BUNDLES, ()) for word in ("--bundle", name)]
    config = context.meta.get(_CONFIG)
    return [*words, CONFIG_OPTION, config] if config else words


def with_tools(run: Callable[P, R]) -> Callable[P, R]:
    """Add `--bundle` and `--tools` to a command; `load_option_bundles` and `load_option_tools` load them."""
    return _bundle_option(_tools_option(run))


def load_option_bundles(loaded: LoadedSettings, *, reloads: bool = False) -> BundleRegistry:
    """Load the bundles that `--bundle` names on this command line; raises a usage error for one that does not exist.

    The rounds of a bundle count over variables and files, but under the option `--max-iterations`.
    """
    names: tuple[str, ...] = click.get_current_context().meta.get(_BUNDLES, ())
    is_option = loaded.origins["react.max_iterations"].level == "option"
    rounds = loaded.settings.react.max_iterations if is_option else None
    try:
        return BundleRegistry(names, reloads=reloads, max_iterations=rounds)
    except CodedError as error:
        raise click.UsageError(f"--bundle: {error}") from error


def _bundle_option(run: Callable[P, R]) -> Callable[P, R]:
    return click.option(
        "--bundle",
        metavar="FOLDER|PACKAGE",
        multiple=True,
        expose_value=False,
        callback=_store_bundles,
        help="Load a bundle: a folder with bundle.toml, an installed package, or MODULE:NAME. New conversations belong "
        "to the first one. Can be repeated.",
    )(run)


def _tools_option(run: Callable[P, R]) -> Callable[P, R]:
    return click.option(
        "--tools",
        metavar="MODULE:NAME",
        multiple=True,
        expose_value=False,
        callback=_store_tools,
        help="Add a tool or a list of tools: NAME of a Python module, found in the current folder or installed. "
        "Without a colon, the name of tools that an installed package offers. Can be repeated.",
    )(run)


def load_option_tools() -> tuple[Tool, ...]:
    """Load the tools that `--tools` names on this command line; raises a usage error that names the fault."""
    names: tuple[str, ...] = click.get_current_context().meta.get(_TOOLS, ())
    if names and "" not in sys.path:
        # As with `python -m`: a script of the current folder is a module.
        sys.path.insert(0, "")
    try:
        return load_named_tools(names)
    except CodedError as error:
        raise click.UsageError(f"--tools: {error}") from error


def _store_bundles(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> None:
    context.meta[_BUNDLES] = value


def _store_tools(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> None:
    context.meta[_TOOLS] = value


def _setting_option(
    row: SettingSpec, callback: Callable[[click.Context, click.Parameter, str], object], *, expose_value: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    default_text = str(row.default) if row.default else None
    return click.option(
        row.help.option,
        cls=SettingOption,
        type=click.Path() if row.help.metavar in ("FOLDER", "FILE") else str,
        metavar=row.help.metavar or f"[{'|'.join(allowed_words(row))}]",
        default=default_text,
        show_default=default_text is not None,
        envvar=row.variables,
        show_envvar=True,
        callback=callback,
        expose_value=expose_value,
        help=row.help.doc.replace("`", ""),
    )


def _config_option(run: Callable[P, R]) -> Callable[P, R]:
    def remember(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        context.meta[_CONFIG] = value

    return click.option(
        CONFIG_OPTION,
        cls=SettingOption,
        type=click.Path(),
        metavar="FILE",
        envvar=CONFIG_VARIABLE,
        show_envvar=True,
        # Eager: the options of settings are resolved together with the file.
        is_eager=True,
        callback=remember,
        expose_value=False,
        help="Settings file. Options and variables override it. Without this option, "
        f"{CONFIG_NAME} in this folder may only set harmless settings.",
    )(run)


def _store_option(key: str) -> Callable[[click.Context, click.Parameter, str], None]:
    def remember(context: click.Context, parameter: click.Parameter, value: str) -> None:
        if _is_from_command_line(context, parameter):
            context.meta.setdefault(_OPTIONS, {})[key] = value

    return remember


def _resolve_data_dir(context: click.Context, parameter: click.Parameter, value: str) -> Path:
    if context.resilient_parsing:  # shell completion: do not read or check settings
        return Path(value)
    with _raise_usage_errors():
        sources = gather_sources(
            {"data_dir": value} if _is_from_command_line(context, parameter) else {}, context.meta[_CONFIG]
        )
        data_dir = load_data_dir(sources)
    _print_warnings(warn_about_unknown_variables(sources.environ))
    return data_dir


def _load_settings(context: click.Context) -> LoadedSettings:
    with _raise_usage_errors():
        loaded = load_settings(gather_sources(context.meta.get(_OPTIONS, {}), context.meta[_CONFIG]))
    _print_warnings(loaded.warnings)
    return loaded


def _is_from_command_line(context: click.Context, parameter: click.Parameter) -> bool:
    return context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE


@contextmanager
def _raise_usage_errors() -> Generator[None]:
    """Raise a `ConfigError` as a usage error (exit code 2), because the command has not started yet."""
    try:
        yield
    except ConfigError as error:
        raise click.UsageError(f"{error} [{error.code}]") from error


def _print_warnings(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        click.echo(f"warning: {sentence}", err=True)
