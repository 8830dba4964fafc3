"""Opens the signer that the settings name."""

from timeloom.config.errors import ConfigError
from timeloom.config.settings import Settings
from timeloom.platform.secrets import resolve_secret
from timeloom.ports.signer import Signer
from timeloom.stores.signing import load_signer, make_signer


def open_signer(settings: Settings) -> Signer | None:
    """Return the signer of heads; None without `storage.signing_key_file` and `storage.signing_key`."""
    path, reference = settings.storage.signing_key_file, settings.storage.signing_key
    if path and reference:
        raise ConfigError(
            "setting_invalid", "storage.signing_key_file and storage.signing_key both name the key; remove one"
        )
    if reference:
        return make_signer(resolve_secret(reference).reveal().encode(), "the secret of storage.signing_key")
    return load_signer(path) if path else None
