"""Finds the places of a Python file that can be changed by one small mutation, and makes the changed text."""

import ast
from collections.abc import Callable, Iterator
from typing import Final, cast

import msgspec

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}

APPENDS: Final = {"append": "append_deferred"}
"""Methods of a session: a deferred append is not durable when it returns."""

QUIET_CALLS: Final = frozenset({"assert_never", "_logger.info", "_logger.warning", "_logger.exception", "super"})
"""Calls whose removal no test should have to notice."""

SKIPPED: Final = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
"""Nodes whose inner nodes are left alone: texts of errors, and f-strings, whose parts have no reliable places."""


UNCHANGED_FIELDS: Final = frozenset({"annotation", "returns", "decorator_list", "type_comment", "bases"})
"""Fields of nodes that hold types; so do the keywords of a class, such as `frozen=True`."""


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a file: the bytes from `start` to `end` become `after`."""

    kind: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed text of the file."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def find_mutations(source: bytes) -> list[Mutation]:
    """Return every mutation of the file, in the order of the file; a few of them may not compile."""
    lines = _LineStarts(source)
    found: list[Mutation] = []
    for kind, node, after in _walk(ast.parse(source)):
        start, end = lines.place(node)
        before = source[start:end].decode()
        found.append(Mutation(kind=kind, line=node.lineno, start=start, end=end, before=before, after=after))
    return sorted(found, key=lambda one: (one.start, one.end, one.kind, one.after))


def compiles(source: bytes) -> bool:
    """Whether the text is a Python program."""
    try:
        compile(source, "<mutant>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


Change = tuple[str, ast.expr | ast.stmt, str]
"""The kind of a mutation, the node that it replaces, and the new text."""


def _walk(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, SKIPPED) or _is_for_type_checkers(node):
        return
    for change in CHANGES:
        yield from change(node)
    for name, value in ast.iter_fields(node):
        if name in UNCHANGED_FIELDS or (isinstance(node, ast.ClassDef) and name == "keywords"):
            continue
        children = cast("list[object]", value) if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _change_comparison(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            operators = [*node.ops[:at], COMPARISONS[type(operator)](), *node.ops[at + 1 :]]
            yield "comparison", node, _text(ast.Compare(node.left, operators, node.comparators))


def _change_boolean(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "and, or", node, _text(ast.BoolOp(other, values))
            for at in range(len(values)):
                rest = [*values[:at], *values[at + 1 :]]
                yield "removed operand", node, _text(rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "removed not", node, _text(operand)
        case ast.Constant(value=bool(value)):
            yield "constant", node, str(not value)
        case _:
            pass


def _change_arithmetic(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
            if not _is_text(left) and not _is_text(right):
                yield "arithmetic", node, _text(ast.BinOp(left, ARITHMETIC[type(operator)](), right))
                yield "removed operand", node, _text(left)
                yield "removed operand", node, _text(right)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield "constant", node, f"({value + 1})"
        case ast.AugAssign(op=operator, target=target, value=value) if type(operator) in ARITHMETIC:
            if _is_text(value):
                return
            yield "arithmetic", node, ast.unparse(ast.AugAssign(target, ARITHMETIC[type(operator)](), value))
        case _:
            pass


def _change_condition(node: ast.AST) -> Iterator[Change]:
    tests: list[ast.expr] = []
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            tests = [test]
        case ast.comprehension(ifs=ifs):
            tests = ifs
        case ast.match_case(guard=guard) if guard:
            tests = [guard]
        case _:
            pass
    for test in tests:
        # The negation of these is a mutation of their own.
        if not isinstance(test, ast.Compare) and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            yield "inverted condition", test, _text(ast.UnaryOp(ast.Not(), test))


def _change_statement(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await() as value) if _call_name(value) not in QUIET_CALLS:
            yield "removed statement", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            yield "removed statement", node, "pass"
        case _:
            pass


def _change_call(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in CALLS and args:
            yield "call", node, ast.unparse(ast.Call(ast.Name(CALLS[name]), args, keywords))
        case ast.Await(value=ast.Call(func=ast.Attribute(value=owner, attr=name) as method)) if name in APPENDS:
            # Only an append to the timeline has a deferred form.
            if ast.unparse(owner).endswith("session"):
                yield "deferred append", method, f"{ast.unparse(owner)}.{APPENDS[name]}"
        case _:
            pass


CHANGES: Final[tuple[Callable[[ast.AST], Iterator[Change]], ...]] = (
    _change_comparison,
    _change_boolean,
    _change_arithmetic,
    _change_condition,
    _change_statement,
    _change_call,
)


class _LineStarts:
    """The byte at which each line starts; the places of nodes count bytes."""

    def __init__(self, source: bytes) -> None:
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the first byte of the node and the one after its last."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _is_text(node: ast.expr) -> bool:
    """Whether the node is certainly a text or a list, for which only `+` is defined."""
    return isinstance(node, ast.JoinedStr | ast.List | ast.ListComp | ast.Tuple) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _call_name(node: ast.expr) -> str:
    call = node.value if isinstance(node, ast.Await) else node
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    return "super" if name.startswith("super()") else name


def _is_for_type_checkers(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.AnnAssign(annotation=annotation) if "TypeAlias" in ast.unparse(annotation):
            return True
        case _:
            return False
