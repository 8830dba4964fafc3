"""The errors of invalid settings."""

from typing import Literal

from timeloom.core.codes import CodedError


class ConfigError(CodedError):
    """A setting is unknown or invalid, or the settings file cannot be read."""

    def __init__(self, code: Literal["setting_unknown", "setting_invalid", "config_unreadable"], message: str) -> None:
        super().__init__(code, message)


class ServerConfigError(ConfigError):
    """The server cannot start with these settings, or needs an extra package for them."""

    def __init__(self, message: str) -> None:
        super().__init__("setting_invalid", message)
