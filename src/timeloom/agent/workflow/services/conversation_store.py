"""The store of a workflow: the records of its bundle, and the stored conversations of its user."""

from collections.abc import AsyncIterator
from typing import Final, TypeVar

import msgspec

from timeloom.agent.workflow.parts import WorkflowParts
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.reader import ConversationInfo, ConversationPage, ConversationQuery, ConversationUnknownError
from timeloom.ports.records import RecordScope
from timeloom.ports.typed_records import TypedRecords, bundle_records
from timeloom.runtime.read.export import export_timeline, iter_entries_until
from timeloom.runtime.read.files import FileInfo, list_downloadable_files
from timeloom.runtime.read.turn_overview import TurnOverview, build_turn_overviews, select_turns_after
from timeloom.runtime.session.load_views import load_views

MAX_PAGE: Final = 200
"""Most turns, files or conversations of one call. More would load a long conversation at once."""

T = TypeVar("T", bound=msgspec.Struct)


class ConversationStore:
    """What a workflow stores and reads: nothing of other tenants, projects, users or bundles.

    Each method takes the id of a conversation; without one, it reads the running conversation with its open turn.
    """

    def __init__(self, parts: WorkflowParts) -> None:
        self._parts = parts

    def records(self, kind: type[T], *, name: str = "", shared: bool = False) -> TypedRecords[T]:
        """Return the state of the bundle for the user, or with `shared` for all users of the project.

        `name` separates several types of state. A user's records are erased with the user.
        """
        caller = self._parts.session.caller
        user = "" if shared else caller.user
        scope = RecordScope(tenant=caller.tenant, project=caller.project, user=user)
        return bundle_records(self._parts.store.records, self._parts.bundle.name, kind, scope, name=name)

    async def conversations(self, words: str = "", *, limit: int = 20, cursor: str = "") -> ConversationPage:
        """Return a page of the user's conversations with this bundle, newest first, that contain all of the words.

        A page may have fewer conversations than the limit, because other bundles' are left out.
        """
        await self._parts.session.flush()
        caller = self._parts.session.caller
        page = await self._parts.store.conversations(
            ConversationQuery(
                tenant=caller.tenant,
                project=caller.project,
                user=caller.user,
                words=words,
                cursor=cursor,
                limit=_at_most(limit),
            )
        )
        own = tuple(info for info in page.conversations if self._is_own(info))
        return ConversationPage(own, page.cursor)

    async def turns(self, conversation: str = "", *, after: int = 0, limit: int = 20) -> tuple[TurnOverview, ...]:
        """Return the turns after that number with their messages, files and feedback, in order."""
        info, views = await self._open(conversation)
        names, _ = select_turns_after(views, after, views.turns.turns, _at_most(limit))
        return await build_turn_overviews(self._parts.store, info, views, names)

    async def entries(self, conversation: str = "") -> AsyncIterator[Entry]:
        """Yield the entries of the conversation in order."""
        info, views = await self._open(conversation)
        async for entry in iter_entries_until(self._parts.store, info.id, views.tail):
            yield entry

    async def timeline(self, conversation: str = "") -> AsyncIterator[bytes]:
        """Yield the pieces of the `conv.timeline.v1` object of the conversation."""
        info, _ = await self._open(conversation)
        async for piece in export_timeline(self._parts.store, info.id):
            yield piece

    async def files(self, conversation: str = "", *, limit: int = 50) -> tuple[FileInfo, ...]:
        """Return the downloadable files of the conversation in the order of creation."""
        info, views = await self._open(conversation)
        found, _ = await list_downloadable_files(self._parts.store, info, views, 0, _at_most(limit))
        return tuple(found)

    async def _open(self, conversation: str) -> tuple[ConversationInfo, Views]:
        """Return the data and the views of the conversation; one of another owner counts as unknown."""
        session, store = self._parts.session, self._parts.store
        name = ConversationId(conversation) or session.conversation
        if name == session.conversation:
            await session.flush()
            return await store.info(name), session.views
        info = await store.info(name)
        if not self._is_own(info):
            raise ConversationUnknownError(name)
        return info, await load_views(store, name)

    def _is_own(self, info: ConversationInfo) -> bool:
        caller = self._parts.session.caller
        owner = (info.tenant, info.project, info.user, info.bundle)
        return owner == (caller.tenant, caller.project, caller.user, caller.bundle)


def _at_most(limit: int) -> int:
    if limit < 1:
        raise CodedError("request_malformed", f"limit must be at least 1, got {limit}")
    return min(limit, MAX_PAGE)
