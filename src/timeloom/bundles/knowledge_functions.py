"""Gives an agent the knowledge functions of its bundle: a tool that searches, and the content of `ks:` paths."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Final, cast

import msgspec
from msgspec import Meta

from timeloom.core.codes import CodedError
from timeloom.core.paths import KnowledgePath, PathError, SkillPath, parse_long
from timeloom.platform.secrets import SECRETS
from timeloom.ports.tool import Tool, ToolContext
from timeloom.tools.define import tool
from timeloom.tools.errors import to_tool_error
from timeloom.tools.mime import decode_file_text, guess_mime
from timeloom.tools.react.resolve import ReadableContent

SEARCH_ID: Final = "react.search_knowledge"

FUNCTION_S: Final = 30.0
"""Deadline of a knowledge function. Less fails slow services; more keeps the turn waiting for a hung one."""

MAX_HITS: Final = 20
"""Most hits of a search. Fewer hides results that a model asked for; more fills the prompt."""

MAX_HIT_CHARS: Final = 2_000
"""Longest text of a hit. Less cuts paragraphs; more fills the prompt, and `react.read` shows the whole document."""

MAX_DOCUMENT_BYTES: Final = 10 * 1024 * 1024
"""Largest document. A smaller limit refuses manuals; a larger one lets one read fill the store."""

_TITLE_CHARS: Final = 300

KnowledgeFunction = Callable[..., object]
"""A function of a bundle, async or sync; sync ones run in a thread."""


class KnowledgeHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hit of a search; `path` is for `react.read`."""

    path: str = ""
    title: str = ""
    text: str = ""
    score: float | None = None


class KnowledgeFunctions:
    """The functions that a workflow passed to `build_react`.

    `search` takes a query and a limit, and returns a list of texts or of mappings with `path`, `title`, `text` and
    `score`. `read` takes a path such as `ks:docs/a.md`, and returns text, bytes or None.
    """

    def __init__(
        self, search: KnowledgeFunction | None, read: KnowledgeFunction | None, *, limit_s: float = FUNCTION_S
    ) -> None:
        self._search = search
        self._read = read
        self._limit_s = limit_s

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tool `react.search_knowledge`, if there is a function for it."""
        return (tool(SEARCH_ID, effect="pure", deadline_s=self._limit_s + 5)(self.search),) if self._search else ()

    async def search(self, query: str, limit: Annotated[int, Meta(ge=1, le=MAX_HITS)] = 5) -> list[KnowledgeHit]:
        """Search the documents of this app; read a hit in full with react.read.

        query: what to find
        limit: most results
        """
        assert self._search is not None
        found = await self._call("knowledge_space_fn", self._search, query, limit)
        if not isinstance(found, list | tuple):
            raise _failed("knowledge_space_fn", f"it must return a list of results, got {type(found).__name__}")
        items = cast("list[object] | tuple[object, ...]", found)
        return [_to_hit(one) for one in items[:limit]]

    async def fetch(self, path: SkillPath | KnowledgePath, context: ToolContext) -> ReadableContent | None:
        """Return the document at that path; None if the bundle has none there."""
        if self._read is None or isinstance(path, SkillPath):
            return None
        try:
            found = await self._call("knowledge_read_fn", self._read, str(path))
            # Programs get the document too, and their fetches are not redacted elsewhere.
            return None if found is None else SECRETS.redact_value(_to_readable(str(path), found))
        except CodedError:
            raise
        except Exception as error:
            raise _failed("knowledge_read_fn", to_tool_error(error, context.out_dir).message) from error

    async def _call(self, name: str, function: KnowledgeFunction, *args: object) -> object:
        is_async = inspect.iscoroutinefunction(function)
        try:
            async with asyncio.timeout(self._limit_s):
                found = function(*args) if is_async else await asyncio.to_thread(function, *args)
                return await found if inspect.isawaitable(found) else found
        except TimeoutError as error:
            raise _failed(name, f"it ran longer than {self._limit_s:g} seconds") from error


def _to_hit(value: object) -> KnowledgeHit:
    if isinstance(value, str):
        return KnowledgeHit(text=value[:MAX_HIT_CHARS])
    try:
        fields = msgspec.to_builtins(value)
        hit = msgspec.convert(fields if isinstance(fields, Mapping) else {}, KnowledgeHit)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        raise _failed("knowledge_space_fn", f"a result has `path`, `title`, `text` and `score`: {error}") from error
    if not (hit.path or hit.text):
        raise _failed("knowledge_space_fn", f"a result needs a `path` or a `text`, got {type(value).__name__}")
    path = _to_path(hit.path) if hit.path else ""
    return KnowledgeHit(path=path, title=hit.title[:_TITLE_CHARS], text=hit.text[:MAX_HIT_CHARS], score=hit.score)


def _to_path(text: str) -> str:
    try:
        return str(parse_long(text if text.startswith("ks:") else f"ks:{text}"))
    except PathError as error:
        raise _failed("knowledge_space_fn", f"a result has a malformed path: {error}") from error


def _to_readable(path: str, found: object) -> ReadableContent:
    if not isinstance(found, str | bytes):
        raise _failed("knowledge_read_fn", f"it must return text, bytes or None, got {type(found).__name__}")
    data = found if isinstance(found, bytes) else found.encode("utf-8", "replace")
    if len(data) > MAX_DOCUMENT_BYTES:
        raise _failed("knowledge_read_fn", f"a document has at most {MAX_DOCUMENT_BYTES} bytes, got {len(data)}")
    mime = guess_mime(path)
    if isinstance(found, str):
        mime = mime if mime.startswith("text/") or "json" in mime else "text/plain"
        return ReadableContent(path=path, mime=mime, text=data.decode(), size_bytes=len(data))
    return ReadableContent(path=path, mime=mime, text=decode_file_text(data, mime), data=data, size_bytes=len(data))


def _failed(function: str, problem: str) -> CodedError:
    return CodedError("knowledge_failed", f"{function} of the bundle failed: {problem}")
