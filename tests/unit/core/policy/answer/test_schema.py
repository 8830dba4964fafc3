"""The schemas that answers can be validated against."""

import pytest

from timeloom.core.policy.answer.schema import OutputSchemaError, parse_schema, resolve_reference


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "must be one JSON object"),
        ("{", "must be one JSON object"),
        ('"' + "a" * 20_000 + '"', "at most 16000"),
        ('{"not": {}}', "unsupported 'not' at $"),
        ('{"properties": {"a": {"if": {}}}}', "unsupported 'if' at $.properties.a"),
        ('{"anyOf": []}', "unsupported 'anyOf'"),
        ('{"anyOf": [1]}', "needs an object at $.anyOf[0]"),
        ('{"properties": []}', "unsupported 'properties'"),
        ('{"minimum": true}', "unsupported 'minimum'"),
        ('{"multipleOf": 0}', "unsupported 'multipleOf'"),
        ('{"type": "text"}', "unsupported 'type'"),
        ('{"type": ["string", 1]}', "unsupported 'type'"),
        ('{"type": 1}', "unsupported 'type'"),
        ('{"required": [1]}', "unsupported 'required'"),
        ('{"pattern": "("}', "unsupported 'pattern'"),
        ('{"$ref": "https://example.org/a"}', "unsupported '$ref'"),
        ('{"$ref": "#/$defs/a"}', "unsupported '$ref'"),
        ('{"items": ' * 40 + "{}" + "}" * 40, "nested deeper than 32"),
        ('{"enum": "' + "a" * 100 + '"}', "…"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_by_its_keyword(text: str, problem: str) -> None:
    with pytest.raises(OutputSchemaError) as caught:
        parse_schema(text)
    assert problem in str(caught.value)
    assert caught.value.code == "output_schema_invalid"


def test_a_schema_with_every_kind_of_keyword_is_parsed() -> None:
    schema = parse_schema(
        '{"type":["object"],"properties":{"a":{"type":"string","pattern":"a"}},"required":["a"],"items":true,'
        '"uniqueItems":true,"enum":[1],"const":2,"minimum":1,"multipleOf":2,"title":"T","$ref":"#/$defs/A",'
        '"$defs":{"A":{"anyOf":[{}]}}}'
    )
    assert resolve_reference(schema, "#/$defs/A") == {"anyOf": [{}]}
    assert resolve_reference(schema, "#/definitions/A") is None
