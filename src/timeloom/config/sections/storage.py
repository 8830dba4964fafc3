"""Settings of the data folder."""

from pathlib import Path
from typing import Annotated

import msgspec

from timeloom.config.field_help import SettingHelp
from timeloom.config.value_types import SecretSource


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
