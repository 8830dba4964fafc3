"""Mutations of a file: one small change each, at the right place, in the rest of the text."""

import pytest

from scripts.mutations import Mutation, compiles, find_mutations

CHANGES = {
    "a < b": {"(a <= b)"},
    "a is None": {"(a is not None)"},
    "a in b": {"(a not in b)"},
    "a and b": {"(a or b)", "(a)", "(b)"},
    "not a": {"(a)"},
    "True": {"False"},
    "a + b": {"(a - b)", "(a)", "(b)"},
    "7": {"(8)"},
    "x = a if b else c": {"x = a if (not b) else c"},
    "x = [a for a in b if c]": {"x = [a for a in b if (not c)]"},
    "min(a, b)": {"max(a, b)", "pass"},
    "self.a = b": {"pass"},
    "a += b": {"a -= b", "pass"},
    "save(a)": {"pass"},
    "a + 'text'": set[str](),
    "a += [b]": {"pass"},
    "f'{a + b}'": set[str](),
    "raise ValueError(1)": set[str](),
    "assert a == b": set[str](),
    "assert_never(a)": set[str](),
    "_logger.info(a)": set[str](),
    "__all__ = [1]": set[str](),
    "a: Literal[1]": set[str](),
    "class A(B, frozen=True): pass": set[str](),
    "if TYPE_CHECKING:\n    a = 1": set[str](),
}
"""What each text may become."""


@pytest.mark.parametrize("text", CHANGES)
def test_a_text_has_exactly_these_mutations(text: str) -> None:
    source = text.encode()
    assert {one.apply(source).decode() for one in find_mutations(source)} == CHANGES[text]


def test_a_stored_append_becomes_a_deferred_one() -> None:
    source = b"async def f(self):\n    return await self.session.append([a], turn)\n"
    (mutation,) = find_mutations(source)
    assert mutation.kind == "deferred append"
    assert mutation.apply(source) == source.replace(b".append(", b".append_deferred(")


def test_an_append_to_a_list_has_no_deferred_form() -> None:
    assert [one.kind for one in find_mutations(b"async def f():\n    return await rows.append(a)\n")] == []


def test_only_the_changed_expression_differs_also_after_wide_characters() -> None:
    source = "def f(a, b):\n    # å\n    x = '日本'; return (a  ==  b)  # kept\n".encode()
    (mutation,) = find_mutations(source)
    assert (mutation.line, mutation.before) == (3, "a  ==  b")
    assert mutation.apply(source).decode() == "def f(a, b):\n    # å\n    x = '日本'; return ((a != b))  # kept\n"


def test_a_condition_over_several_lines_is_inverted_as_a_whole() -> None:
    source = b"if (\n    a(b)\n):\n    save(b)\n"
    inverted = next(one for one in find_mutations(source) if one.kind == "inverted condition")
    assert inverted.apply(source) == b"if (\n    (not a(b))\n):\n    save(b)\n"


def test_a_change_that_is_no_program_is_recognized() -> None:
    broken = Mutation(kind="constant", line=1, start=0, end=1, before="a", after="(")
    assert not compiles(broken.apply(b"a = 1"))
    assert compiles(b"a = 1")
