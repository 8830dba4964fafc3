"""Knowledge functions of a bundle are bounded in time and size, and their values are checked."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

from tests.harness.react_tools import ToolHarness
from timeloom.bundles.knowledge_functions import KnowledgeFunction, KnowledgeFunctions
from timeloom.core.codes import CodedError
from timeloom.core.paths import KnowledgePath, SkillPath
from timeloom.stores.in_memory.store import MemoryStore

PATH = KnowledgePath("docs/a.md")


class Found(msgspec.Struct):
    path: str
    text: str = ""
    extra: int = 1


def search(function: KnowledgeFunction, *, limit: int = 5, limit_s: float = 30) -> object:
    return asyncio.run(KnowledgeFunctions(function, None, limit_s=limit_s).search("words", limit))


def fetch(
    tmp_path: Path,
    function: KnowledgeFunction | None,
    path: KnowledgePath | SkillPath = PATH,
    *,
    limit_s: float = 30,
) -> object:
    async def read() -> object:
        context = ToolHarness(await MemoryStore.open(), tmp_path).context()
        found = await KnowledgeFunctions(None, function, limit_s=limit_s).fetch(path, context)
        return found and (found.path, found.mime, found.text, found.data, found.size_bytes)

    return asyncio.run(read())


def test_functions_that_hang_fail_after_their_limit(tmp_path: Path) -> None:
    released = threading.Event()

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    def block(*_: object) -> None:
        released.wait()

    try:
        with pytest.raises(CodedError, match=r"knowledge_space_fn of the bundle failed: it ran longer than 0\.01"):
            search(hang, limit_s=0.01)
        with pytest.raises(CodedError, match="knowledge_read_fn of the bundle failed: it ran longer"):
            fetch(tmp_path, hang, limit_s=0.01)

        async def read() -> None:
            functions = KnowledgeFunctions(block, None, limit_s=0.01)
            with pytest.raises(CodedError, match="it ran longer"):
                await functions.search("words")
            released.set()

        asyncio.run(read())
    finally:
        released.set()


def test_hits_are_bounded_and_have_paths() -> None:
    hits = [Found("a.md", "x" * 5_000), {"path": "ks:b.md", "title": "t" * 900}, *(f"text {n}" for n in range(50))]

    def find(query: str, limit: int) -> list[object]:
        assert (query, limit) == ("words", 3)
        return list(hits)

    found = search(find, limit=3)
    assert isinstance(found, list)
    rows = msgspec.to_builtins(found)
    assert rows == [
        {"path": "ks:a.md", "text": "x" * 2_000},
        {"path": "ks:b.md", "title": "t" * 300},
        {"text": "text 0"},
    ]


def test_a_function_may_return_an_awaitable() -> None:
    async def later() -> list[str]:
        return ["later"]

    assert msgspec.to_builtins(search(lambda *_: later())) == [{"text": "later"}]


def test_documents_are_text_or_bytes(tmp_path: Path) -> None:
    def give(value: object) -> KnowledgeFunction:
        return lambda *_: value

    assert fetch(tmp_path, give("# A")) == ("ks:docs/a.md", "text/markdown", "# A", None, 3)
    assert fetch(tmp_path, give(b"# A")) == ("ks:docs/a.md", "text/markdown", "# A", b"# A", 3)
    assert fetch(tmp_path, give("x"), KnowledgePath("a.png")) == ("ks:a.png", "text/plain", "x", None, 1)
    assert fetch(tmp_path, give(None)) is None
    assert fetch(tmp_path, None) is None
    assert fetch(tmp_path, give("# A"), SkillPath("a")) is None
    assert KnowledgeFunctions(None, give("")).tools == ()
