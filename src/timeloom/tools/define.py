"""Makes a tool from a typed async function: the signature becomes the schema, the docstring the description."""

import copy
import inspect
import keyword
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, TypedDict, Unpack, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ToolTraits
from timeloom.core.codes import CodedError
from timeloom.ports.tool import (
    DEADLINE_S,
    Caller,
    Effect,
    Emit,
    Outcome,
    ReconcileResult,
    TimelineReader,
    ToolContext,
    ToolSpec,
)
from timeloom.tools.binding import WritePath
from timeloom.tools.docstrings import parse_docstring
from timeloom.tools.errors import to_tool_error
from timeloom.tools.outcome import to_outcome
from timeloom.tools.parameters import ToolParameters
from timeloom.tools.schema import params_schema

ToolFunction = Callable[..., Awaitable[object]]

INJECTED_TYPES: Final[Mapping[object, Callable[[ToolContext], object]]] = MappingProxyType(
    {
        ToolContext: lambda context: context,
        Caller: lambda context: context.caller,
        TimelineReader: lambda context: context.timeline,
        Emit: lambda context: context.emit,
        Path: lambda context: context.out_dir,
    }
)
"""The parameter types that are injected from the context. Such parameters are not part of the schema."""

_logger = logging.getLogger(__name__)


class ToolOptions(TypedDict, total=False):
    """Optional properties of a tool; `ToolSpec` documents each of them."""

    aliases: tuple[str, ...]
    examples: tuple[str, ...]
    exact_params: tuple[str, ...]
    reports: bool
    max_text_bytes: int
    traits: ToolTraits | None


class FunctionTool:
    """A function as a tool; `function` is the decorated function."""

    def __init__(
        self, spec: ToolSpec, function: ToolFunction, parameters: ToolParameters, injected: Mapping[str, object]
    ) -> None:
        self._spec = spec
        self.function = function
        self._parameters = parameters
        self._injected = injected
        self._reconcile: FunctionTool | None = None

    @property
    def spec(self) -> ToolSpec:
        """The description of the tool for the catalogue and the runtime."""
        return self._spec

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Call the function and return its outcome; exceptions other than a cancellation become its error."""
        try:
            return to_outcome(await self.run(params, context), context)
        except CodedError as error:
            return Outcome(error=to_tool_error(error, context.out_dir))
        except Exception as error:
            _logger.exception("%s failed", self._spec.tool_id)
            return Outcome(error=to_tool_error(error, context.out_dir))

    async def run(self, params: str, context: ToolContext) -> object:
        """Parse the parameters, call the function and return its value; exceptions propagate."""
        values = self._parameters.parse(params)
        injected = {name: INJECTED_TYPES[kind](context) for name, kind in self._injected.items()}
        return await self.function(**values, **injected)

    def reconciled_by(self, function: ToolFunction) -> ToolFunction:
        """Register the decorated function to report the result of a call that a crash interrupted.

        The function takes the tool's parameters and may request context values by type. It returns the result of the
        call, or None if the call was not executed. It must change nothing, and raise if it cannot determine the result.
        """
        self._reconcile = _build_tool(self._spec, function, self._parameters.renamed)
        return function

    async def reconcile(self, params: str, context: ToolContext) -> ReconcileResult:
        """Return the result of an interrupted call; `unknown` if no reconcile function is registered."""
        reconciler = self._reconcile
        if reconciler is None:
            return "unknown"
        result = await reconciler.run(params, context)
        return "not_done" if result is None else to_outcome(result, context)


def tool(
    tool_id: str,
    *,
    effect: Effect = "irreversible",
    deadline_s: float = DEADLINE_S,
    renamed: Mapping[str, str] | None = None,
    **options: Unpack[ToolOptions],
) -> Callable[[ToolFunction], FunctionTool]:
    """Return a decorator that makes a tool from a function; raise `tool_malformed` if its signature is unsuitable.

    `renamed` maps alternative parameter names that models use to the real names.
    """
    spec = ToolSpec(tool_id=tool_id, purpose="", effect=effect, deadline_s=deadline_s, **options)

    def decorate(function: ToolFunction) -> FunctionTool:
        try:
            return _build_tool(spec, function, renamed or {})
        except CodedError as error:
            raise CodedError(error.code, f"{tool_id}: {error}") from error

    return decorate


def _build_tool(spec: ToolSpec, function: ToolFunction, renamed: Mapping[str, str]) -> FunctionTool:
    if not inspect.iscoroutinefunction(function):
        raise _malformed_error("a tool must be an async function; define it with async def")
    if not spec.deadline_s > 0:
        raise _malformed_error(f"deadline_s must be greater than 0, got {spec.deadline_s}")
    hints = _parameter_types(function)
    injected = {name: hint for name, hint in hints.items() if any(hint is kind for kind in INJECTED_TYPES)}
    struct = _build_struct(spec.tool_id, function, {name: hint for name, hint in hints.items() if name not in injected})
    _check_traits(spec.traits, struct.__struct_encode_fields__)
    docstring = parse_docstring(inspect.getdoc(function) or "", struct.__struct_encode_fields__)
    if not docstring.purpose:
        raise _malformed_error("the tool needs a docstring whose first line says what the tool is for")
    schema = params_schema(struct, docstring.params)
    spec = replace(
        spec,
        purpose=docstring.purpose,
        description=docstring.description,
        params_schema=msgspec.json.encode(schema).decode(),
        write_params=tuple(find_write_params(struct)),
    )
    parameters = ToolParameters(tool_id=spec.tool_id, struct=struct, schema=schema, renamed=renamed)
    return FunctionTool(spec, function, parameters, injected)


def _check_traits(traits: ToolTraits | None, names: Collection[str]) -> None:
    """Raise if the traits name a parameter that the tool does not have."""
    named = (traits.path_param, traits.content_param) if traits else ()
    for name in named:
        if name and name not in names:
            raise _malformed_error(f"the traits name the parameter {name!r}, which the tool does not have")


def find_write_params(struct: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the locations in parameters of this shape that are marked as write paths, such as `files.*.path`."""
    yield from (".".join(steps) for steps in _marked_paths(struct, ()))


def _parameter_types(function: ToolFunction) -> dict[str, object]:
    """Return the type of each parameter; raise for positional-only parameters and those without a type."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise _malformed_error(f"a parameter type cannot be resolved where the tool is defined: {error}") from error
    found: dict[str, object] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _malformed_error(f"the parameter {name} cannot be passed by keyword; make it a keyword parameter")
        if name not in hints:
            raise _malformed_error(f"the parameter {name} has no type annotation")
        found[name] = hints[name]
    return found


def _build_struct(tool_id: str, function: ToolFunction, hints: Mapping[str, object]) -> type[msgspec.Struct]:
    parameters = inspect.signature(function).parameters
    fields: list[tuple[str, type] | tuple[str, type, object]] = []
    for name, hint in hints.items():
        kind, default = cast(type, hint), parameters[name].default
        fields.append((name, kind) if default is inspect.Parameter.empty else (name, kind, _field_default(default)))
    # A parameter `from_` is named `from` in the schema, because `from` is a Python keyword.
    names = {name: name[:-1] for name in hints if name.endswith("_") and keyword.iskeyword(name[:-1])}
    name = "".join(part.title() for part in tool_id.replace(".", "_").split("_") if part.isidentifier())
    return msgspec.defstruct(name or "Params", fields, kw_only=True, rename=names, module=function.__module__)


def _field_default(default: object) -> object:
    """Return the default in the form that a Struct accepts; a mutable default is copied for each call."""
    changes = isinstance(default, list | dict | set)
    return msgspec.field(default_factory=partial(copy.copy, cast(object, default))) if changes else default


def _marked_paths(hint: object, seen: tuple[object, ...]) -> Iterator[tuple[str, ...]]:
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        if any(mark is WritePath or isinstance(mark, WritePath) for mark in marks):
            yield ()
        else:
            yield from _marked_paths(kind, seen)
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        # A recursive type is visited once: its locations would have no end.
        if hint not in seen:
            yield from _marked_field_paths(hint, (*seen, hint))
    else:
        step = ("*",) if get_origin(hint) in (list, tuple, dict, set, frozenset) else ()
        for inner in get_args(hint):
            yield from ((*step, *steps) for steps in _marked_paths(inner, seen))


def _marked_field_paths(struct: type[msgspec.Struct], seen: tuple[object, ...]) -> Iterator[tuple[str, ...]]:
    hints = get_type_hints(struct, include_extras=True)
    for name, outside in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        yield from ((outside, *steps) for steps in _marked_paths(hints[name], seen))


def _malformed_error(message: str) -> CodedError:
    return CodedError("tool_malformed", message)
