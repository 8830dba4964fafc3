"""The base class of all blocks, and the class of those whose type or form the client does not know."""

from typing import Any

import msgspec


class Block:
    """A block of the timeline: one of the classes in `timeloom.client.types`, or `OtherBlock`."""

    __slots__ = ()


class OtherBlock(Block, msgspec.Struct, frozen=True, kw_only=True):
    """A block of an unknown type, or one that another program wrote in another form; `fields` is its JSON object."""

    type: str
    fields: dict[str, Any]
