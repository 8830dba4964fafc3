"""A typed client of the HTTP API: every route as a method, every block and event as a type.

Reading order: `connection`, `event_stream`, `decode`, `blocks`, `api_error`; `types` and `operations` are generated.
"""

from timeloom.client.api_error import ApiError
from timeloom.client.blocks import Block, OtherBlock
from timeloom.client.connection import AttachedFile
from timeloom.client.decode import read_text
from timeloom.client.operations import Operations as Client

__all__ = ["ApiError", "AttachedFile", "Block", "Client", "OtherBlock", "read_text"]
