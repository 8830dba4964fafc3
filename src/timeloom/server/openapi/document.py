"""Builds the OpenAPI document from the table of routes and its types."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom import __version__
from timeloom.server.endpoints import Endpoint
from timeloom.server.openapi.operations import describe_operation
from timeloom.server.openapi.schemas import Json, build_schemas

DESCRIPTION: Final = (
    "The HTTP API of timeloom. Fields that are not required are absent if they are empty. "
    "Clients must ignore fields, events and block types that they do not know."
)


def build_document(endpoints: Sequence[Endpoint]) -> bytes:
    """Return the OpenAPI document as JSON."""
    schemas = build_schemas(endpoints)
    paths: dict[str, Json] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = describe_operation(one, schemas)
    openapi: Json = {
        "openapi": "3.1.0",
        "info": {"title": "timeloom", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return msgspec.json.encode(openapi)
