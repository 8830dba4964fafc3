"""Reads the OpenAPI document into the types and operations that clients are generated from."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

OTHER_APIS = {"ag-ui", "v1", "metrics"}
"""Groups of routes that other clients are for."""

BROWSER_ONLY = {"post_login", "post_logout"}
"""Operations that only set and remove a browser's cookie."""

PROJECT = ("tenant", "project")
"""Path parameters that a client has from its start."""

JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream"


@dataclass(frozen=True)
class Field:
    """A property of an object, or a parameter of an operation."""

    name: str
    schema: Json
    required: bool

    @property
    def description(self) -> str:
        """What the field means; empty if the document does not say."""
        return self.schema.get("description", "")

    @property
    def default(self) -> Any:
        """The value that an absent field stands for; None if the document names none."""
        return self.schema.get("default")


@dataclass(frozen=True)
class Component:
    """A named schema: an object with fields, or an alternative of others."""

    name: str
    schema: Json

    @property
    def description(self) -> str:
        """What the type is, as one paragraph."""
        return " ".join(self.schema.get("description", "").split())

    @property
    def is_object(self) -> bool:
        """Whether it has fields of its own."""
        return "properties" in self.schema

    @property
    def fields(self) -> list[Field]:
        """The fields, required ones first."""
        return sort_fields(properties_of(self.schema))


@dataclass(frozen=True)
class Operation:
    """A route with its parameters, the type of its body and of its results."""

    name: str
    method: str
    path: str
    summary: str
    path_names: tuple[str, ...]
    query: tuple[Field, ...]
    body: str
    body_fields: tuple[Field, ...]
    accepts_files: bool
    result: Json | None
    """The schema of the JSON result; None if there is none."""
    is_file: bool
    """Whether the result is a document that is no JSON, such as a file or a page."""
    streams: str
    """The schema of the events that it streams; empty if it does not."""


@dataclass(frozen=True)
class Api:
    """Everything that a client is generated from."""

    components: Mapping[str, Component]
    operations: tuple[Operation, ...]

    def used(self) -> list[Component]:
        """Return the components that the operations and their events need, by name."""
        found: set[str] = set()
        pending = ["Block", "ProblemDetails", *self._roots()]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += references(self.components[name].schema)
        return [self.components[name] for name in sorted(found)]

    def block_types(self) -> dict[str, list[str]]:
        """Return the names of the schemas of each block type."""
        mapping: dict[str, str] = self.components["KnownBlock"].schema["discriminator"]["mapping"]
        found = {key: name_of(target) for key, target in mapping.items()}
        return {
            key: [name_of(one["$ref"]) for one in self.components[name].schema.get("oneOf", [])] or [name]
            for key, name in found.items()
        }

    def event_types(self) -> dict[str, str]:
        """Return the name of the type of each event's data, by the event's name."""
        mapping: dict[str, str] = self.components["StreamEvent"].schema["discriminator"]["mapping"]
        return {event: self._data_type(name_of(target)) for event, target in mapping.items()}

    def _data_type(self, item: str) -> str:
        return name_of(self.components[item].schema["properties"]["data"]["contentSchema"]["$ref"])

    def _roots(self) -> Iterator[str]:
        for one in self.operations:
            yield from [one.body] if one.body else []
            yield from references(one.result or {})
            yield from self.event_types().values() if one.streams else []


def read_document(document: Json) -> Api:
    """Return the types and operations of the document, without those of other APIs."""
    schemas: Json = document["components"]["schemas"]
    components = {name: Component(name, schema) for name, schema in schemas.items()}
    operations = [
        _operation(path, method, one, components)
        for path, methods in document["paths"].items()
        for method, one in methods.items()
        if not OTHER_APIS.intersection(one["tags"]) and one["operationId"] not in BROWSER_ONLY
    ]
    return Api(components, tuple(operations))


def properties_of(schema: Json) -> list[Field]:
    """Return the fields of an object's schema."""
    required = schema.get("required", [])
    return [Field(name, value, name in required) for name, value in schema["properties"].items()]


def sort_fields(fields: list[Field]) -> list[Field]:
    """Return the required fields, then the others, each in their order."""
    return sorted(fields, key=lambda one: not one.required)


def name_of(target: str) -> str:
    """Return the name at the end of a reference."""
    return target.rpartition("/")[2]


def references(schema: Any) -> list[str]:
    """Return the names of the components that a schema refers to."""
    return [name_of(target) for target in re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))]


def _operation(path: str, method: str, one: Json, components: Mapping[str, Component]) -> Operation:
    contents = [response.get("content", {}) for status, response in one["responses"].items() if status < "300"]
    body: Json = one.get("requestBody", {}).get("content", {})
    results = [content[JSON_TYPE]["schema"] for content in contents if JSON_TYPE in content]
    events = [content[EVENTS_TYPE]["schema"] for content in contents if EVENTS_TYPE in content]
    body_name = name_of(body[JSON_TYPE]["schema"]["$ref"]) if body else ""
    return Operation(
        name=one["operationId"],
        method=method.upper(),
        path=path,
        summary=one["summary"],
        path_names=tuple(name for name in re.findall(r"\{(\w+)\}", path) if name not in PROJECT),
        query=tuple(
            Field(each["name"], each["schema"], each["required"]) for each in one["parameters"] if each["in"] == "query"
        ),
        body=body_name,
        body_fields=tuple(properties_of(components[body_name].schema)) if body else (),
        accepts_files="multipart/form-data" in body,
        result=results[0] if results else None,
        is_file=any(kind not in (JSON_TYPE, EVENTS_TYPE) for content in contents for kind in content),
        streams=name_of(events[0]["$ref"]) if events else "",
    )
