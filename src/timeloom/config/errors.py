"""The error of a setting that cannot be taken."""

from typing import Literal

from timeloom.core.codes import CodedError


class ConfigError(CodedError):
    """A setting is unknown or not what it should be, or the file of settings cannot be read."""

    def __init__(self, code: Literal["setting_unknown", "setting_invalid", "config_unreadable"], message: str) -> None:
        super().__init__(code, message)
