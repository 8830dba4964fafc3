"""Encodes snapshots of views and decodes them."""

from typing import Final

import msgspec

from timeloom.core.view.views import VIEWS_VERSION, Views

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Views)

SNAPSHOT_VERSION: Final = f"views-{VIEWS_VERSION}"
"""The key under which snapshots are stored; snapshots of other versions are never read."""


def encode_views(views: Views) -> bytes:
    """Return the views as bytes."""
    return _ENCODER.encode(views)


def decode_views(data: bytes) -> Views | None:
    """Return the decoded views, or None if the bytes are invalid; the caller then folds the log again."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
