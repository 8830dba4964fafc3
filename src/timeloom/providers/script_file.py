"""Parses and checks the YAML file of the scripted model."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import yaml

from timeloom.core.blocks import Usage
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError

MAX_SCRIPT_BYTES: Final = 4 * 1024 * 1024
MAX_STEPS: Final = 100_000
"""Maximum number of steps. Needed beside the size, because YAML aliases let a small file repeat a list many times."""

MAX_DEPTH: Final = 8
"""Maximum nesting; a script needs four levels. The parser's time grows with the square of the depth."""

MAX_PATTERN_CHARACTERS: Final = 1000
MAX_MATCHED_CHARACTERS: Final = 10_000

StepError = Literal["overloaded", "context_too_long", "timeout", "cut"]


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reply to one call, to `repeat` successive calls, or to all further calls if `repeat` is true."""

    reply: str = ""
    when: CallPurpose = "decision"
    chunk: Annotated[int, msgspec.Meta(ge=1)] | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0, le=3_600_000)] = 0.0
    usage: Usage | None = None
    error: StepError | None = None
    repeat: Annotated[int, msgspec.Meta(ge=1)] | bool = 1


class Scene(msgspec.Struct, frozen=True):
    """The steps for conversations whose first user message matches the pattern; an empty pattern matches all."""

    steps: tuple[Step, ...]
    pattern: str = ""

    def matches(self, opening: str) -> bool:
        """Return whether these steps reply to a conversation with this first user message."""
        return not self.pattern or re.search(self.pattern, opening[:MAX_MATCHED_CHARACTERS]) is not None


Script = tuple[Scene, ...]


class ScriptError(CodedError):
    """The script is invalid; the message gives the line and the expected form."""

    def __init__(self, message: str) -> None:
        super().__init__("script_malformed", message)


def read_script(path: Path) -> Script:
    """Read and parse a script file; raises `ScriptError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise ScriptError(f"the script {path.name} cannot be read: {error.strerror}") from error
    try:
        return parse_script(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ScriptError(f"the script {path.name} is not UTF-8") from error


def parse_script(text: str) -> Script:
    """Parse a script: its scenes in order, then one scene of the steps outside scenes, for all other conversations."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SCRIPT_BYTES:
        raise ScriptError(f"the script is larger than {MAX_SCRIPT_BYTES} bytes")
    root = _compose_root(text)
    items = [root] if _is_scene(root) else _sequence(root, "a script is a list of steps")
    scenes: list[Scene] = []
    rest: list[Step] = []
    count = 0
    for number, node in enumerate(items, 1):
        if _is_scene(node):
            scenes.append(_parse_scene(node))
            count += len(scenes[-1].steps)
        else:
            rest.append(_parse_step(node, number))
        if count + len(rest) > MAX_STEPS:
            raise ScriptError(f"the script has more than {MAX_STEPS} steps")
    return (*scenes, Scene(tuple(rest))) if rest or not scenes else tuple(scenes)


def _compose_root(text: str) -> yaml.Node:
    try:
        _check_depth(text)
        root = _compose(text, _LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScriptError(f"line {line} is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ScriptError("the script is not YAML: it contains characters that YAML does not allow") from error
    if root is None:
        raise ScriptError("the script is empty; expected a list of steps")
    return root


def _check_depth(text: str) -> None:
    """Reject text that is nested too deeply before the parser builds its nodes."""
    depth = 0
    for event in _parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ScriptError(f"line {event.start_mark.line + 1} is nested deeper than {MAX_DEPTH}")


def _is_scene(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and any(key.value in ("match", "steps") for key, _ in node.value)


def _parse_scene(node: yaml.Node) -> Scene:
    fields = _fields(node)
    if set(fields) != {"match", "steps"}:
        raise ScriptError(f"{_line(node)}: a scene needs exactly `match` and `steps`, got {_quote_names(fields)}")
    pattern, steps = _value(fields["match"]), _sequence(fields["steps"], "`steps` is a list of steps")
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ScriptError(
            f"{_line(node)}: `match` must be a regular expression of at most {MAX_PATTERN_CHARACTERS} characters"
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ScriptError(f"{_line(node)}: `match` is not a regular expression: {error}") from error
    return Scene(tuple(_parse_step(step, n) for n, step in enumerate(steps, 1)), pattern)


def _parse_step(node: yaml.Node, number: int) -> Step:
    place = f"item {number} ({_line(node)})"
    if not isinstance(node, yaml.MappingNode):
        raise ScriptError(f"{place} is not a mapping; a step has keys such as `reply`")
    fields = _fields(node)
    unknown = set(fields) - set(Step.__struct_fields__)
    if unknown:
        raise ScriptError(
            f"{place} has unknown keys {_quote_names(unknown)}; a step has {_quote_names(Step.__struct_fields__)}"
        )
    values = {name: _value(value) for name, value in fields.items()}
    try:
        step = msgspec.convert(values, Step)
    except ValueError as error:
        raise ScriptError(f"{place}: {error}") from error
    if step.repeat is False:
        raise ScriptError(f"{place}: `repeat` must be a number from 1, or true for all further calls")
    if step.error is None and "reply" not in fields:
        raise ScriptError(f"{place} has neither `reply` nor `error`")
    return step


def _fields(node: yaml.Node) -> dict[str, yaml.Node]:
    fields: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in fields:
            raise ScriptError(f"{_line(key)}: keys must be words and unique in their mapping")
        fields[key.value] = value
    return fields


def _value(node: yaml.Node) -> object:
    """Return the plain value of a node: a string, a number, a boolean or a mapping of them."""
    if isinstance(node, yaml.MappingNode):
        return {name: _scalar(value) for name, value in _fields(node).items()}
    return _scalar(node)


def _scalar(node: yaml.Node) -> object:
    if not isinstance(node, yaml.ScalarNode):
        raise ScriptError(f"{_line(node)}: expected a string, a number or a boolean")
    try:
        return _SCALARS[node.tag.removeprefix("tag:yaml.org,2002:")](node.value)
    except (KeyError, ValueError) as error:
        raise ScriptError(f"{_line(node)}: expected a string, a number or a boolean; put text in quotes") from error


def _sequence(node: yaml.Node, expected: str) -> Sequence[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise ScriptError(f"{_line(node)}: {expected}")
    return node.value


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


def _quote_names(names: Sequence[str] | set[str] | dict[str, yaml.Node]) -> str:
    return ", ".join(f"`{name[:40]}`" for name in sorted(names)[:10])


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The library has no types for these two.
_parse: Callable[[str, object], Iterator[yaml.Event]] = vars(yaml)["parse"]
_compose: Callable[[str, object], yaml.Node | None] = vars(yaml)["compose"]
_SCALARS: Final[Mapping[str, Callable[[str], object]]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: text.lower() in {"true", "yes", "on"},
    "null": lambda _: None,
}
