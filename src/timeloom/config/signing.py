"""Opens the signer that the settings name."""

from timeloom.config.settings import Settings
from timeloom.ports.signer import Signer
from timeloom.stores.signing import load_signer


def open_signer(settings: Settings) -> Signer | None:
    """Return the signer of heads; None without `storage.signing_key_file`."""
    path = settings.storage.signing_key_file
    return load_signer(path) if path else None
