"""Pydantic models as types of parameters, where the program has imported pydantic."""

import sys
from typing import Any, Final, cast

JsonSchema = dict[str, object]

MAX_PROBLEMS: Final = 5
"""Problems of one value that its error names; more would repeat the value."""


def is_pydantic_model(kind: object) -> bool:
    """Return whether this is a class of Pydantic models; does not import pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def pydantic_schema(kind: type) -> JsonSchema:
    """Return the JSON Schema of the model; its inner types have names that begin with the name of the model."""
    model = cast(Any, kind)
    prefix = f"{kind.__module__}.{kind.__qualname__}".replace("<locals>.", "")
    schema = cast(JsonSchema, model.model_json_schema(ref_template=f"#/$defs/{prefix}.{{model}}"))
    inner = cast(JsonSchema, schema.pop("$defs", {}))
    return {**schema, "$defs": {f"{prefix}.{name}": part for name, part in inner.items()}}


def validate_pydantic(kind: type, value: object) -> object:
    """Return the value as the model; raise `ValueError` with a short list of the problems."""
    pydantic = cast(Any, sys.modules["pydantic"])
    try:
        return cast(Any, kind).model_validate(value)
    except pydantic.ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        words = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems[:MAX_PROBLEMS]]
        raise ValueError("; ".join(words)) from None
