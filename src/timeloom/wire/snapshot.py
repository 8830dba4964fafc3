"""Snapshots of views as bytes, and the way back."""

from typing import Final

import msgspec

from timeloom.core.view.views import VIEWS_VERSION, Views

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Views)

SNAPSHOT_VERSION: Final = f"views-{VIEWS_VERSION}"
"""The key under which snapshots are kept; those of other versions are never read."""


def encode_views(views: Views) -> bytes:
    """The views as bytes."""
    return _ENCODER.encode(views)


def decode_views(data: bytes) -> Views | None:
    """The views that the bytes stand for; None where they stand for none, so that the caller folds anew."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
