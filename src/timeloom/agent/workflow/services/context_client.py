"""The context client of a workflow: reads what the conversation contains, and searches its messages."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from timeloom.agent.workflow.services.conversation_store import ConversationStore
from timeloom.agent.workflow.turn_call import TurnCall
from timeloom.core.blocks import Completion, ExternalEvent, Followup, Steer, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.paths import AttachmentPath, EventAttachmentPath, parse_long
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.tool import ToolContext
from timeloom.runtime.read.search import find_messages
from timeloom.tools.react.resolve import NoContent, resolve, to_logical_path

MAX_PATHS: Final = 100
"""Most paths of one fetch. Fewer makes long lists take several calls; more lets one call read a whole archive."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of one fetch, which are in memory together; one file of the workspace has as many."""

MAX_HITS: Final = 100
"""Most hits of a search."""

_OVERFETCH: Final = 4
_OTHER_CONVERSATIONS: Final = 20

ContextKind = Literal["user", "assistant", "attachment"]
SearchScope = Literal["conversation", "user"]

_USER_TYPES: Final = frozenset(one.type_name for one in (UserPrompt, Followup, Steer, ExternalEvent))


class ContextItem(msgspec.Struct, frozen=True, kw_only=True):
    """The content at a logical path: text, or bytes that are no text."""

    path: str
    mime: str
    size_bytes: int
    text: str | None = None
    data: bytes | None = None


class ContextHit(msgspec.Struct, frozen=True, kw_only=True):
    """A message or an attachment that contains at least one of the words."""

    conversation: ConversationId
    turn: TurnId
    kind: ContextKind
    path: str
    snippet: str
    ts: str = ""
    """The time of the message; empty for attachments."""


class ContextClient:
    """Reads and searches the conversation of a workflow."""

    def __init__(self, call: TurnCall, store: ConversationStore) -> None:
        self._call = call
        self._store = store

    async def fetch_ctx(self, paths: Sequence[str]) -> list[ContextItem]:
        """Return the content at logical paths of the conversation, such as `ar:t1.artifacts.summary`, in order.

        A path of several sources gives several items. Raises `path_not_found`, `path_malformed` or, above 64 MiB,
        `tool_result_too_large`.
        """
        if isinstance(paths, str) or len(paths) > MAX_PATHS:
            raise CodedError("request_malformed", f"paths must be a list of at most {MAX_PATHS} texts")
        context = await self._make_context()
        items: list[ContextItem] = []
        for text in paths:
            path = to_logical_path(text, context.turn_id, context.timeline.views)
            for one in (await resolve(path, context, NoContent())).readables:
                data = one.data if one.text is None else None
                item = ContextItem(path=one.path, mime=one.mime, size_bytes=one.size_bytes, text=one.text, data=data)
                items.append(item)
            if sum(item.size_bytes for item in items) > MAX_BYTES:
                raise CodedError("tool_result_too_large", f"one fetch brings at most {MAX_BYTES} bytes; ask for less")
        return items

    async def search(
        self, query: str, kind: ContextKind | None = None, limit: int = 5, *, scope: SearchScope = "conversation"
    ) -> list[ContextHit]:
        """Return the newest messages and attachments with any of the words, those of this conversation first.

        With the scope `user`, it also searches the user's newest conversations with this bundle that contain all of
        the words. Words match from their beginning, without case and accents; there is no search by meaning yet.
        """
        if limit < 1:
            raise CodedError("request_malformed", f"limit must be at least 1, got {limit}")
        session, store = self._call.turns.session, self._call.parts.store
        await session.flush()
        searched = [await store.info(session.conversation)]
        hits = list(self._find_attachments(query)) if kind in (None, "attachment") else []
        if scope == "user" and kind != "attachment":
            others = await self._store.conversations(query, limit=_OTHER_CONVERSATIONS)
            searched += [info for info in others.conversations if info.id != session.conversation]
        for info in searched if kind != "attachment" else ():
            if len(hits) < limit:
                hits += await self._find_messages(info, query, kind, min(limit, MAX_HITS))
        return hits[: min(limit, MAX_HITS)]

    async def _find_messages(
        self, info: ConversationInfo, query: str, kind: ContextKind | None, limit: int
    ) -> list[ContextHit]:
        found: list[ContextHit] = []
        for hit in await find_messages(self._call.parts.store, info, query, limit * (_OVERFETCH if kind else 1) + 1):
            its_kind = _kind_of(hit.type)
            if its_kind and kind in (None, its_kind):
                found.append(
                    ContextHit(
                        conversation=info.id,
                        turn=hit.turn_id,
                        kind=its_kind,
                        path=hit.path,
                        snippet=hit.snippet,
                        ts=hit.ts,
                    )
                )
        return found

    def _find_attachments(self, query: str) -> Iterator[ContextHit]:
        """Yield the attachments of the conversation whose names contain a word of the query, newest first."""
        session = self._call.turns.session
        words = query.lower().split()
        for name in reversed(session.views.artifacts.artifacts):
            path = parse_long(name) if ".attachments/" in name else None
            if not isinstance(path, AttachmentPath | EventAttachmentPath):
                continue
            if any(word in path.name.lower() for word in words):
                yield ContextHit(
                    conversation=session.conversation,
                    turn=path.turn,
                    kind="attachment",
                    path=name,
                    snippet=path.name,
                )

    async def _make_context(self) -> ToolContext:
        actions, session = self._call.turns.action_context, self._call.turns.session
        await asyncio.to_thread(actions.out_dir.mkdir, mode=0o700, parents=True, exist_ok=True)
        return ToolContext(
            conversation=session.conversation,
            turn_id=self._call.payload.turn,
            tool_call_id=CallId(""),
            caller=session.caller,
            timeline=session,
            out_dir=actions.out_dir,
            emit=actions.emit,
            epoch_us=session.epoch_us(),
        )


def _kind_of(block_type: str) -> ContextKind | None:
    """Return the kind of a message; None for the title, which is no message."""
    if block_type == Completion.type_name:
        return "assistant"
    return "user" if block_type in _USER_TYPES else None
