"""Renders the OpenAPI document as one HTML page without scripts or files from elsewhere."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Final, cast

import msgspec

from timeloom.server.openapi.schemas import Json

STYLE: Final = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,.path{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}h2{margin-top:2.5rem}"
    "h3{margin:2rem 0 .25rem}h4{margin:1rem 0 .25rem}p{margin:.25rem 0}.method{font-weight:700}"
    "table{border-collapse:collapse;width:100%;font-size:.9rem}"
    "td,th{border-top:1px solid #8886;padding:.25rem .75rem .25rem 0;text-align:left;vertical-align:top}"
    "nav ul{columns:20rem;padding-left:1rem;font-size:.9rem}summary{cursor:pointer}"
)

PAGE_CSP: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the page: its own style, and nothing else."""

_CODE: Final = re.compile(r"`([^`]+)`")

METHODS: Final = ("get", "post", "delete")


def render_page(document: bytes) -> bytes:
    """Return the page of the document."""
    openapi = msgspec.json.decode(document, type=dict[str, object])
    info, paths = cast(Json, openapi["info"]), cast(dict[str, Json], openapi["paths"])
    schemas = cast(dict[str, Json], cast(Json, openapi["components"])["schemas"])
    title = f"{info['title']} {info['version']}: HTTP API"
    operations = list(_list_operations(paths))
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>',
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>',
        f"<h1>{escape(title)}</h1><p>{escape(str(info['description']))}</p>",
        '<p><a href="openapi.json">openapi.json</a> is the same as an OpenAPI document.</p>',
        _render_contents(operations),
        *(_render_operation(path, method, one) for path, method, one in operations),
        '<h2 id="schemas">Schemas</h2>',
        *(_render_schema(name, schema) for name, schema in sorted(schemas.items())),
    ]
    return "".join(parts).encode()


def _list_operations(paths: Mapping[str, Json]) -> Iterator[tuple[str, str, Json]]:
    for path, methods in paths.items():
        for method in METHODS:
            if method in methods:
                yield path, method, cast(Json, methods[method])


def _render_contents(operations: Iterable[tuple[str, str, Json]]) -> str:
    rows = "".join(
        f'<li><a href="#{one["operationId"]}">{method.upper()} <span class="path">{escape(path)}</span></a>'
        for path, method, one in operations
    )
    return f'<nav><h2>Routes</h2><ul>{rows}</ul><p><a href="#schemas">Schemas</a></p></nav>'


def _render_operation(path: str, method: str, one: Json) -> str:
    parameters = cast(list[Json], one["parameters"])
    body = cast(Json, one.get("requestBody", {}))
    return "".join(
        (
            f'<h3 id="{one["operationId"]}"><span class="method">{method.upper()}</span> ',
            f'<span class="path">{escape(path)}</span></h3><p>{_prose(one["summary"])}</p>',
            f"<p>{_prose(one.get('description', ''))}</p>",
            "" if one["security"] else "<p>Needs no token.</p>",
            f"<h4>Parameters</h4>{_render_parameters(parameters)}" if parameters else "",
            f"<h4>Body</h4>{_render_content(cast(dict[str, Json], body['content']))}" if body else "",
            _render_responses(cast(dict[str, Json], one["responses"])),
        )
    )


def _render_parameters(parameters: list[Json]) -> str:
    rows = (
        _row(
            f"<code>{escape(str(one['name']))}</code>",
            f"{one['in']}{', required' if one['required'] else ''}",
            _type_of(cast(Json, one["schema"])),
            _prose(one.get("description", "")),
        )
        for one in parameters
    )
    return f"<table>{''.join(rows)}</table>"


def _render_content(content: Mapping[str, Json]) -> str:
    rows = (
        _row(f"<code>{escape(name)}</code>", _type_of(cast(Json, media_type["schema"])))
        for name, media_type in content.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _render_responses(responses: Mapping[str, Json]) -> str:
    good = {status: one for status, one in responses.items() if int(status) < 400}
    results = "".join(_row(status, _render_result(one)) for status, one in good.items())
    errors = "".join(
        _row(status, f"<ul>{_render_codes(str(one['description']))}</ul>")
        for status, one in responses.items()
        if status not in good
    )
    return (
        f"<h4>Responses</h4><table>{results}</table><details><summary>Errors</summary><table>{errors}</table></details>"
    )


def _render_result(response: Json) -> str:
    content = cast(dict[str, Json], response.get("content", {}))
    return _render_content(content) if content else escape(str(response["description"]))


def _render_codes(description: str) -> str:
    lines = (line.removeprefix("- ").split("`", 2) for line in description.splitlines())
    return "".join(f"<li><code>{escape(code)}</code>{_prose(rest)}" for _, code, rest in lines)


def _render_schema(name: str, schema: Json) -> str:
    head = f'<h3 id="schema-{name}"><code>{name}</code></h3><p>{_prose(schema.get("description", ""))}</p>'
    properties = cast(dict[str, Json], schema.get("properties", {}))
    if not properties:
        return f"{head}<p>{_type_of(schema)}</p>"
    required = cast(list[str], schema.get("required", []))
    rows = (
        _row(
            f"<code>{escape(field)}</code>",
            "required" if field in required else "",
            _type_of(value),
            _prose(value.get("description", "")),
        )
        for field, value in properties.items()
    )
    return f"{head}<table>{''.join(rows)}</table>"


def _prose(text: object) -> str:
    """Return the text with its code in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(str(text)))


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{cell}' for cell in cells)}"


def _type_of(schema: Json) -> str:
    """Return the type of a value in words, with links to other schemas."""
    shape = _shape_of(schema)
    limits = [
        f"{word} {escape(str(schema[name]))}"
        for name, word in (
            ("minimum", "from"),
            ("maximum", "to"),
            ("minLength", "at least"),
            ("maxLength", "at most"),
            ("minItems", "at least"),
            ("maxItems", "at most"),
            ("pattern", "matches"),
        )
        if name in schema
    ]
    default = [f"default {_json_of(schema['default'])}"] if "default" in schema else []
    return ", ".join([shape, *limits, *default])


def _shape_of(schema: Json) -> str:
    for keyword, render in _SHAPES.items():
        if keyword in schema:
            return render(schema[keyword])
    return escape(str(schema.get("format") or schema.get("type", "any JSON value")))


def _link(target: object) -> str:
    name = escape(str(target).rpartition("/")[2])
    return f'<a href="#schema-{name}">{name}</a>'


def _first(options: object) -> str:
    return _type_of(cast(list[Json], options)[0])


def _choice(options: object) -> str:
    return " or ".join(map(_type_of, cast(list[Json], options)))


def _values(values: object) -> str:
    return " or ".join(map(_json_of, cast(list[object], values)))


def _json_text(inner: object) -> str:
    return f"JSON of {_type_of(cast(Json, inner))}"


def _array(inner: object) -> str:
    return f"array of {_type_of(cast(Json, inner))}"


def _mapping(inner: object) -> str:
    return f"object of {_type_of(cast(Json, inner))}" if isinstance(inner, dict) else "object"


def _json_of(value: object) -> str:
    return f"<code>{escape(msgspec.json.encode(value).decode())}</code>"


_SHAPES: Final[Mapping[str, Callable[[object], str]]] = {
    "$ref": _link,
    "allOf": _first,
    "anyOf": _choice,
    "oneOf": _choice,
    "enum": _values,
    "const": _json_of,
    "contentSchema": _json_text,
    "items": _array,
    "additionalProperties": _mapping,
}
"""How a schema is shown, by its first keyword of these."""
