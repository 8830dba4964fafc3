"""The types that describe the JSON of blocks fit everything that timeloom writes, and nothing more."""

import json
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given

from timeloom.core.blocks import BLOCK_CLASSES, Unknown
from timeloom.core.sources import SourceRow, row_to_json
from timeloom.core.timeline import Draft
from timeloom.testing.samples import sample_drafts
from timeloom.testing.strategies import drafts
from timeloom.wire.block_json import encode_block
from timeloom.wire.block_schema import BlockType, block_types, source_row_type
from timeloom.wire.layouts import SCHEMA_REF

KNOWN = {one.cls: one for one in block_types()}


@cache
def components() -> dict[str, Any]:
    """The schemas of all types; blocks, their `meta` and their text accept no further field."""
    types = [kind for one in KNOWN.values() for kind in (one.object_type, one.text_type) if kind]
    _, found = msgspec.json.schema_components([*types, source_row_type()], ref_template=SCHEMA_REF)
    for name, schema in found.items():
        schema.setdefault("additionalProperties", name == "SourceRow")
    return found


@cache
def validator(name: str) -> Any:
    return jsonschema_rs.validator_for({"$ref": SCHEMA_REF.format(name=name), "components": {"schemas": components()}})


def errors_of(name: str, value: object) -> list[str]:
    return [f"{name} {list(error.instance_path)}: {error.message}" for error in validator(name).iter_errors(value)]


def misfits(draft: Draft) -> list[str]:
    """Where the JSON object of a block, or of its text, differs from its type."""
    kind = KNOWN[type(draft.block)]
    written = json.loads(encode_block(draft))
    found = errors_of(kind.object_type.__name__, written)
    if kind.text_type:
        found += errors_of(kind.text_type.__name__, json.loads(written["text"]))
    return found


@pytest.mark.parametrize("draft", sample_drafts(), ids=lambda draft: draft.block.type_name)
def test_every_sample_fits_its_type(draft: Draft) -> None:
    assert isinstance(draft.block, Unknown) or misfits(draft) == []


@given(drafts)
def test_every_block_fits_its_type(draft: Draft) -> None:
    assert isinstance(draft.block, Unknown) or misfits(draft) == []


def test_every_class_has_a_type() -> None:
    assert KNOWN.keys() == set(BLOCK_CLASSES) - {Unknown}


def test_classes_that_share_a_type_differ_in_their_role() -> None:
    kinds = [(one.cls.type_name, one.role) for one in KNOWN.values()]
    assert len(set(kinds)) == len(kinds)
    assert {role for name, role in kinds if name == "react.tool.result"} == {"content", "digest", "status"}


@pytest.mark.parametrize("kind", KNOWN.values(), ids=lambda kind: kind.object_type.__name__)
def test_a_type_says_which_block_it_describes(kind: BlockType) -> None:
    schema = components()[kind.object_type.__name__]
    assert schema["properties"]["type"]["enum"] == [kind.cls.type_name]
    assert schema["description"]


def test_a_row_of_the_pool_fits_its_type_with_unknown_fields() -> None:
    row = SourceRow(sid=1, title="Ferries", url="https://example.org/", authority=2.5, extra='{"lang":"en"}')
    assert errors_of("SourceRow", row_to_json(row)) == []
    assert errors_of("SourceRow", {"title": "Ferries"}) != []
