"""Makes a tool from a typed function: the signature becomes the schema, the docstring the description."""

import asyncio
import copy
import inspect
import keyword
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial, wraps
from pathlib import Path
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypedDict,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import ToolTraits
from timeloom.core.codes import CodedError
from timeloom.platform.secrets import SECRETS, RedactingFilter
from timeloom.ports.tool import (
    DEADLINE_S,
    Caller,
    Effect,
    Emit,
    Outcome,
    ReconcileResult,
    TimelineReader,
    ToolCallError,
    ToolContext,
    ToolSpec,
    ToolTexts,
)
from timeloom.tools.binding import WritePath
from timeloom.tools.docstrings import parse_docstring
from timeloom.tools.errors import to_tool_error
from timeloom.tools.first_edition import FirstEdition
from timeloom.tools.outcome import to_outcome
from timeloom.tools.parameters import ToolParameters, check_tool_id
from timeloom.tools.schema import JsonSchema, params_schema

ToolFunction = Callable[..., Awaitable[object]]
PlainFunction = Callable[..., object]
"""A function that can become a tool: async, or sync to run in a thread."""

AnyMethod: TypeAlias = "classmethod[Any, ..., Any] | staticmethod[..., Any]"
"""A method of a class that `@tool` is written above."""

Binding = Literal["nothing", "instance", "class"]
"""The first argument of a method, which the model does not give."""

DEFAULT_FAMILY: Final = "tools"
"""The family of tools that have no id of their own: `tools.<function>`."""

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

_FOREIGN_MARKS: Final = frozenset({"pydantic", "annotated_types"})
"""Packages whose constraints in `Annotated` msgspec does not check."""

_logger = logging.getLogger(__name__)
_logger.addFilter(RedactingFilter(SECRETS))


class ToolOptions(TypedDict, total=False):
    """Optional properties of a tool; `ToolSpec` documents each of them."""

    aliases: tuple[str, ...]
    examples: tuple[str, ...]
    exact_params: tuple[str, ...]
    reports: bool
    max_text_bytes: int
    traits: ToolTraits | None
    edition: int


class FunctionTool:
    """A function as a tool. Calling the tool calls the function as it was written, for example in a unit test.

    A method that is decorated in its class becomes a tool of each instance: pass `service.find`, not `Service.find`.
    """

    def __init__(
        self,
        spec: ToolSpec,
        function: PlainFunction,
        parameters: ToolParameters,
        injected: Mapping[str, object],
        bound_to: Binding = "nothing",
    ) -> None:
        self._spec = spec
        self._bound_to: Binding = bound_to
        self.function = function
        """The decorated function."""
        self._run = _as_async(function)
        self._parameters = parameters
        self._injected = injected
        self._reconcile: FunctionTool | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function as it was written; the result of an async one has to be awaited."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool":
        """Return the tool of that instance or class, whose function is the bound method."""
        receiver = owner if self._bound_to == "class" else instance
        if receiver is None or self._bound_to == "nothing":
            return self
        bound = FunctionTool(self._spec, partial(self.function, receiver), self._parameters, self._injected)
        bound._reconcile = self._reconcile.__get__(instance, owner) if self._reconcile else None
        return bound

    @property
    def place(self) -> str:
        """The file and the line of the function, for messages about the tool."""
        return _location(self.function)

    @property
    def spec(self) -> ToolSpec:
        """The description of the tool for the catalogue and the runtime."""
        return self._spec

    async def call(self, params: str, context: ToolContext) -> Outcome:
        """Call the function and return its outcome; exceptions other than a cancellation become its error."""
        try:
            return to_outcome(await self.run(params, context), context)
        except (CodedError, ToolCallError) as error:
            return Outcome(error=to_tool_error(error, context.out_dir))
        except Exception as error:
            _logger.exception("%s failed", self._spec.tool_id)
            return Outcome(error=to_tool_error(error, context.out_dir))

    async def run(self, params: str, context: ToolContext) -> object:
        """Parse the parameters, call the function and return its value; exceptions propagate."""
        values = self._parameters.parse(params)
        injected = {name: INJECTED_TYPES[kind](context) for name, kind in self._injected.items()}
        return await self._run(**values, **injected)

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


@overload
def tool(tool_id: "PlainFunction | AnyMethod", /) -> FunctionTool: ...


@overload
def tool(
    tool_id: str | None = None,
    *,
    effect: Effect = "irreversible",
    deadline_s: float = DEADLINE_S,
    renamed: Mapping[str, str] | None = None,
    first_edition: FirstEdition | None = None,
    **options: Unpack[ToolOptions],
) -> "Callable[[PlainFunction | AnyMethod], FunctionTool]": ...


def tool(
    tool_id: "str | PlainFunction | AnyMethod | None" = None,
    *,
    effect: Effect = "irreversible",
    deadline_s: float = DEADLINE_S,
    renamed: Mapping[str, str] | None = None,
    first_edition: FirstEdition | None = None,
    **options: Unpack[ToolOptions],
) -> "FunctionTool | Callable[[PlainFunction | AnyMethod], FunctionTool]":
    """Make a tool from a function: `@tool`, `@tool("orders.find")` or `@tool(effect="pure")`.

    Without an id, the tool is `tools.<function>`. Async functions run in the event loop, sync ones in a thread. Raises
    `tool_malformed` with the file and line if the signature is unsuitable. The effect is `irreversible` by default, so
    that each call needs approval: use `pure` for a tool that changes nothing. `renamed` maps alternative parameter
    names that models use to the real names. `first_edition` are the texts of a built-in tool in edition 1.
    """
    if tool_id is not None and not isinstance(tool_id, str):
        return tool()(tool_id)

    def decorate(decorated: "PlainFunction | AnyMethod") -> FunctionTool:
        is_wrapped = isinstance(decorated, classmethod | staticmethod)
        function = cast(PlainFunction, cast(Any, decorated).__func__ if is_wrapped else decorated)
        name = tool_id or ""
        try:
            _check_function(function)
            name = f"{DEFAULT_FAMILY}.{_function_name(function)}" if tool_id is None else tool_id
            check_tool_id(name)
            spec = ToolSpec(tool_id=name, purpose="", effect=effect, deadline_s=deadline_s, **options)
            made = _build_tool(spec, function, renamed or {}, first_edition, isinstance(decorated, classmethod))
        except CodedError as error:
            place = f" ({where})" if (where := _location(function)) else ""
            raise CodedError(error.code, f"{name or 'the tool'}{place}: {error}") from error
        return made

    return decorate


def _function_name(function: PlainFunction) -> str:
    name = getattr(function, "__name__", "")
    if not isinstance(name, str) or not name.isidentifier():
        raise _malformed_error('the tool has no function name; give it an id: @tool("family.name")')
    return name


def _check_function(function: object) -> None:
    """Raise for anything but a function or method: its parameters would not be those that the model gives."""
    if not inspect.isroutine(function):
        kind = "a class" if isinstance(function, type) else f"a {type(function).__name__}"
        raise _malformed_error(f"a tool is made from a function or method, got {kind}; write a function that calls it")


def _location(function: object) -> str:
    inner = getattr(function, "func", function)
    code = getattr(inspect.unwrap(inner) if callable(inner) else inner, "__code__", None)
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}" if code else ""


def _as_async(function: PlainFunction) -> ToolFunction:
    """Return the function if it is async; otherwise one that runs it in a thread."""
    inner = cast(PlainFunction, getattr(function, "func", function))
    if inspect.iscoroutinefunction(inner):
        return cast(ToolFunction, function)

    @wraps(inner)
    async def run_in_thread(**values: object) -> object:
        return await asyncio.to_thread(function, **values)

    return run_in_thread


def _build_tool(
    spec: ToolSpec,
    function: PlainFunction,
    renamed: Mapping[str, str],
    first_edition: FirstEdition | None = None,
    of_class: bool = False,
) -> FunctionTool:
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise _malformed_error("a tool must return one value; replace yield with return, and stream text with emit")
    if not spec.deadline_s > 0:
        raise _malformed_error(f"deadline_s must be greater than 0, got {spec.deadline_s}")
    if spec.effect not in get_args(Effect):
        raise _malformed_error(f"effect must be one of {', '.join(get_args(Effect))}, got {spec.effect!r}")
    bound_to = _find_binding(function, of_class)
    hints = _parameter_types(function, bound_to)
    injected = {name: hint for name, hint in hints.items() if any(hint is kind for kind in INJECTED_TYPES)}
    struct = _build_struct(spec.tool_id, function, {name: hint for name, hint in hints.items() if name not in injected})
    _check_traits(spec.traits, struct.__struct_encode_fields__)
    texts = _tool_texts(struct, inspect.getdoc(function) or "", spec.examples)
    if not texts.purpose:
        raise _malformed_error("the tool needs a docstring whose first line says what the tool is for")
    spec = replace(
        spec,
        purpose=texts.purpose,
        description=texts.description,
        params_schema=texts.params_schema,
        write_params=tuple(find_write_params(struct)),
        first_edition=_tool_texts(struct, first_edition.docstring, first_edition.examples) if first_edition else None,
    )
    schema = msgspec.json.decode(texts.params_schema, type=JsonSchema)
    parameters = ToolParameters(tool_id=spec.tool_id, struct=struct, schema=schema, renamed=renamed)
    return FunctionTool(spec, function, parameters, injected, bound_to)


def _find_binding(function: PlainFunction, of_class: bool) -> Binding:
    """Return what a call of the function in its class needs as its first argument."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    is_untyped = first is not None and first.annotation is inspect.Parameter.empty
    if first and is_untyped and first.name == "cls" and not of_class:
        raise _malformed_error("write @tool above @classmethod")
    if of_class:
        return "class"
    return "instance" if first and is_untyped and first.name == "self" else "nothing"


def _tool_texts(struct: type[msgspec.Struct], docstring: str, examples: tuple[str, ...]) -> ToolTexts:
    parsed = parse_docstring(docstring, struct.__struct_encode_fields__)
    descriptions = {**dict(_described_parameters(struct)), **parsed.params}
    return ToolTexts(
        purpose=parsed.purpose,
        description=parsed.description,
        params_schema=msgspec.json.encode(params_schema(struct, descriptions)).decode(),
        examples=examples,
    )


def _described_parameters(struct: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    """Yield the parameters whose annotation has a text, as in `Annotated[str, "the city"]`."""
    hints = get_type_hints(struct, include_extras=True)
    for name, outside in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        for mark in get_args(hints[name])[1:] if get_origin(hints[name]) is Annotated else ():
            if isinstance(mark, str):
                yield outside, mark
            elif type(mark).__module__.partition(".")[0] in _FOREIGN_MARKS:
                raise _malformed_error(f"msgspec ignores the {type(mark).__name__} of {name}; use msgspec.Meta")


def _check_traits(traits: ToolTraits | None, names: Collection[str]) -> None:
    """Raise if the traits name a parameter that the tool does not have."""
    named = (traits.path_param, traits.content_param) if traits else ()
    for name in named:
        if name and name not in names:
            raise _malformed_error(f"the traits name the parameter {name!r}, which the tool does not have")


def find_write_params(struct: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the locations in parameters of this shape that are marked as write paths, such as `files.*.path`."""
    yield from (".".join(steps) for steps in _marked_paths(struct, ()))


def _parameter_types(function: PlainFunction, bound_to: Binding) -> dict[str, object]:
    """Return the type of each parameter; raise for positional-only parameters and those without a type."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise _malformed_error(f"a parameter type cannot be resolved where the tool is defined: {error}") from error
    found: dict[str, object] = {}
    for at, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if at == 0 and bound_to != "nothing":
            # A method in its class; `FunctionTool.__get__` binds it.
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _malformed_error(f"the parameter {name} cannot be passed by keyword; make it a keyword parameter")
        if name not in hints:
            raise _malformed_error(f"the parameter {name} has no type annotation")
        found[name] = hints[name]
    return found


def _build_struct(tool_id: str, function: PlainFunction, hints: Mapping[str, object]) -> type[msgspec.Struct]:
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
