"""Settings of the data folder: its evidence, and how long conversations are kept."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from timeloom.config.field_help import SettingHelp
from timeloom.config.sections.governance import NoLimit
from timeloom.config.value_types import SecretSource


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long conversations are kept."""

    days: Annotated[
        Annotated[int, Meta(ge=1, le=36_500)] | NoLimit,
        SettingHelp(
            "Days after its last entry until a conversation is deleted; servers and workers delete at their start, and "
            "servers daily."
        ),
    ] = "none"


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence that is written beside the journal."""

    signing_key_file: Annotated[
        Path | None,
        SettingHelp(
            "PEM file with the Ed25519 private key that signs the head of a conversation at the end of each turn."
        ),
    ] = None
    signing_key: Annotated[
        SecretSource,
        SettingHelp("Reference to that private key in PEM form, in place of `storage.signing_key_file`.", secret=True),
    ] = ""

    def __repr__(self) -> str:
        return "StorageSettings(...)"
