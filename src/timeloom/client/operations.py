"""The operations of the HTTP API, written by `make clients`."""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal

from timeloom.client import types
from timeloom.client.connection import UNSET, AttachedFile, Connection, Unset


class Operations(Connection):
    """Every operation as a method; path parameters come first, all others are keywords.

    A keyword that is not passed is not sent, so that the server's default applies.
    """

    async def get_health(self) -> types.Health:
        """Check that the server is up, and which bundles are disabled by a fault."""
        return await self.request("GET", self.path("/health"), types.Health)

    async def get_ready(self) -> types.Health:
        """Check that the server accepts requests: its store responds, its last write succeeded, it is not shutting
        down.
        """
        return await self.request("GET", self.path("/ready"), types.Health)

    async def get_me(self) -> types.Me:
        """Return the current user, their project, the models and the upload limits."""
        return await self.request("GET", self.path("/me"), types.Me)

    async def get_widget(self, widget: str, *, bundle: str | Unset = UNSET) -> bytes:
        """Return the document of a widget, for a frame that has no origin and may not send requests."""
        return await self.exchange("GET", self.path("/widgets/{widget}", widget=widget), query={"bundle": bundle})

    async def get_audit(self, *, cursor: str | Unset = UNSET, limit: int | Unset = UNSET) -> types.AuditPage:
        """List decisions, erasures, deletions and access to conversations of other users, oldest first."""
        return await self.request(
            "GET", self.path("/audit/{tenant}/{project}"), types.AuditPage, query={"cursor": cursor, "limit": limit}
        )

    async def post_message(
        self,
        *,
        message: str,
        conversation_id: str | Unset | None = UNSET,
        bundle: str | Unset = UNSET,
        files: Sequence[AttachedFile] = (),
    ) -> types.SendReceipt:
        """Send a message. It starts a turn, or becomes a follow-up of the running turn."""
        return await self.request(
            "POST",
            self.path("/chat/{tenant}/{project}"),
            types.SendReceipt,
            body={"message": message, "conversation_id": conversation_id, "bundle": bundle},
            files=files,
        )

    def post_message_and_stream(
        self,
        *,
        message: str,
        conversation_id: str | Unset | None = UNSET,
        bundle: str | Unset = UNSET,
        files: Sequence[AttachedFile] = (),
    ) -> AsyncGenerator[types.EventData]:
        """Send a message. It starts a turn, or becomes a follow-up of the running turn. Stream the events of its
        turn.
        """
        return self.stream(
            "POST",
            self.path("/chat/{tenant}/{project}"),
            body={"message": message, "conversation_id": conversation_id, "bundle": bundle},
            files=files,
        )

    def get_stream(self, conversation_id: str, *, after: int | Unset = UNSET) -> AsyncGenerator[types.EventData]:
        """Stream the events of a conversation, beginning after the block `Last-Event-ID`."""
        return self.follow(
            "GET",
            self.path("/chat/{tenant}/{project}/{conversation_id}/stream", conversation_id=conversation_id),
            query={"after": after},
        )

    async def post_event(
        self,
        conversation_id: str,
        *,
        kind: str,
        text: str | Unset = UNSET,
        mime: str | Unset = UNSET,
        started_ts: str | Unset = UNSET,
        form: str | Unset = UNSET,
        keep: int | Unset = UNSET,
        request_id: str | Unset = UNSET,
        files: Sequence[AttachedFile] = (),
    ) -> types.SendReceipt:
        """Send an event to the running turn. If the turn cannot accept it any more, it starts the next turn."""
        return await self.request(
            "POST",
            self.path("/events/{tenant}/{project}/{conversation_id}", conversation_id=conversation_id),
            types.SendReceipt,
            body={
                "kind": kind,
                "text": text,
                "mime": mime,
                "started_ts": started_ts,
                "form": form,
                "keep": keep,
                "request_id": request_id,
            },
            files=files,
        )

    async def list_bundles(self) -> types.BundleList:
        """List the bundles that a new conversation may name in `bundle`."""
        return await self.request("GET", self.path("/bundles/{tenant}/{project}"), types.BundleList)

    async def list_approvals(self, *, cursor: str | Unset = UNSET, limit: int | Unset = UNSET) -> types.ApprovalsPage:
        """List the calls of the project that wait for a decision of the caller."""
        return await self.request(
            "GET",
            self.path("/approvals/{tenant}/{project}"),
            types.ApprovalsPage,
            query={"cursor": cursor, "limit": limit},
        )

    async def get_spend(
        self,
        *,
        by: str | Unset = UNSET,
        since: str | Unset = UNSET,
        until: str | Unset = UNSET,
        user: str | Unset = UNSET,
        cursor: str | Unset = UNSET,
        limit: int | Unset = UNSET,
    ) -> types.Bill:
        """Return what model calls of the project have cost, by day, user, model or conversation."""
        return await self.request(
            "GET",
            self.path("/spend/{tenant}/{project}"),
            types.Bill,
            query={"by": by, "since": since, "until": until, "user": user, "cursor": cursor, "limit": limit},
        )

    async def list_conversations(
        self,
        *,
        words: str | Unset = UNSET,
        cursor: str | Unset = UNSET,
        limit: int | Unset = UNSET,
        user: str | Unset = UNSET,
    ) -> types.ConversationList:
        """List the caller's conversations with their states, newest first."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}"),
            types.ConversationList,
            query={"words": words, "cursor": cursor, "limit": limit, "user": user},
        )

    async def search_conversations(
        self,
        *,
        words: str,
        cursor: str | Unset = UNSET,
        limit: int | Unset = UNSET,
        hits: int | Unset = UNSET,
        user: str | Unset = UNSET,
    ) -> types.SearchPage:
        """Search the caller's conversations for all of the words and return matching messages."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/search"),
            types.SearchPage,
            query={"words": words, "cursor": cursor, "limit": limit, "hits": hits, "user": user},
        )

    async def post_fetch(
        self,
        *,
        conversation_id: str,
        turn_ids: tuple[str, ...] | Unset | None = UNSET,
        cursor: str | Unset = UNSET,
        limit: int | Unset = UNSET,
    ) -> types.TurnsPage:
        """Return the turns of a conversation with their messages, files and feedback."""
        return await self.request(
            "POST",
            self.path("/conversations/{tenant}/{project}/fetch"),
            types.TurnsPage,
            body={"conversation_id": conversation_id, "turn_ids": turn_ids, "cursor": cursor, "limit": limit},
        )

    async def post_conversations_in_period(
        self,
        *,
        start: str,
        end: str,
        user: str | Unset = UNSET,
        cursor: str | Unset = UNSET,
        limit: int | Unset = UNSET,
    ) -> types.ConversationsInPeriod:
        """List the conversations that received feedback in a period, with satisfaction counts."""
        return await self.request(
            "POST",
            self.path("/conversations/{tenant}/{project}/feedback/conversations-in-period"),
            types.ConversationsInPeriod,
            body={"start": start, "end": end, "user": user, "cursor": cursor, "limit": limit},
        )

    async def get_conversation(self, conversation_id: str) -> types.ConversationDetails:
        """Return the owner, the title, the last entry and the state of a conversation, and what the caller may do."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}", conversation_id=conversation_id),
            types.ConversationDetails,
        )

    async def delete_conversation(self, conversation_id: str) -> None:
        """Permanently delete the conversation and its files."""
        await self.exchange(
            "DELETE", self.path("/conversations/{tenant}/{project}/{conversation_id}", conversation_id=conversation_id)
        )

    async def get_timeline(
        self,
        conversation_id: str,
        *,
        after: int | Unset = UNSET,
        limit: int | Unset = UNSET,
        form: Literal["blocks", "export", "restored"] | Unset = UNSET,
    ) -> types.TimelinePage | types.TimelineExport | types.RestoredTimeline:
        """Return the stored blocks page by page, in the same form as the event stream."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/timeline", conversation_id=conversation_id),
            (types.TimelinePage, types.TimelineExport, types.RestoredTimeline),
            query={"after": after, "limit": limit, "form": form},
        )

    async def get_sources(
        self, conversation_id: str, *, cursor: str | Unset = UNSET, limit: int | Unset = UNSET
    ) -> types.SourcesPage:
        """Return the complete sources of the conversation as `conv:sources_pool`, page by page."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/sources", conversation_id=conversation_id),
            types.SourcesPage,
            query={"cursor": cursor, "limit": limit},
        )

    async def get_status(self, conversation_id: str) -> types.ConvStatus:
        """Return the current state: idle, a running turn, or a turn that waits for approval."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/status", conversation_id=conversation_id),
            types.ConvStatus,
        )

    async def get_prompt(
        self,
        conversation_id: str,
        *,
        round: int | Unset = UNSET,
        turn: str | Unset = UNSET,
        attempt: int | Unset = UNSET,
    ) -> types.PromptDetails:
        """Return the prompt of a round, rebuilt from the log. Default: the newest round."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/prompt", conversation_id=conversation_id),
            types.PromptDetails,
            query={"round": round, "turn": turn, "attempt": attempt},
        )

    async def list_files(
        self, conversation_id: str, *, cursor: str | Unset = UNSET, limit: int | Unset = UNSET
    ) -> types.FilesPage:
        """List the downloadable files of the conversation."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/files", conversation_id=conversation_id),
            types.FilesPage,
            query={"cursor": cursor, "limit": limit},
        )

    async def get_file(
        self, conversation_id: str, *, path: str, disposition: Literal["attachment", "inline"] | Unset = UNSET
    ) -> bytes:
        """Download the newest version of a file, or a range of it."""
        return await self.exchange(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/file", conversation_id=conversation_id),
            query={"path": path, "disposition": disposition},
        )

    async def get_artifact_url(self, conversation_id: str, *, path: str) -> types.FileInfo:
        """Return the URL, the resource name and the type of a file."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/file/url", conversation_id=conversation_id),
            types.FileInfo,
            query={"path": path},
        )

    async def post_by_rn(self, *, rn: str) -> types.FileInfo:
        """Resolve a resource name to its file and URL."""
        return await self.request("POST", self.path("/by-rn"), types.FileInfo, body={"rn": rn})

    async def list_pins(self, conversation_id: str) -> types.PinList:
        """List the pinned blocks, which survive pruning and compaction."""
        return await self.request(
            "GET",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/pins", conversation_id=conversation_id),
            types.PinList,
        )

    async def post_pin(self, conversation_id: str, *, path: str, pinned: bool | Unset = UNSET) -> types.PinReceipt:
        """Pin the blocks at a path, so that they survive pruning and compaction, or end their pin."""
        return await self.request(
            "POST",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/pins", conversation_id=conversation_id),
            types.PinReceipt,
            body={"path": path, "pinned": pinned},
        )

    async def post_title(self, conversation_id: str, *, title: str) -> types.ConversationTitle:
        """Set the title of the conversation."""
        return await self.request(
            "POST",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/title", conversation_id=conversation_id),
            types.ConversationTitle,
            body={"title": title},
        )

    async def post_feedback(
        self,
        conversation_id: str,
        turn_id: str,
        *,
        reaction: Literal["neutral", "not_ok", "ok"] | None,
        text: str | Unset = UNSET,
        ts: str | Unset = UNSET,
        origin: Literal["machine", "user"] | Unset = UNSET,
        confidence: float | Unset | None = UNSET,
    ) -> types.FeedbackReceipt:
        """Record feedback on a turn. Feedback of a person replaces their previous one."""
        return await self.request(
            "POST",
            self.path(
                "/conversations/{tenant}/{project}/{conversation_id}/turns/{turn_id}/feedback",
                conversation_id=conversation_id,
                turn_id=turn_id,
            ),
            types.FeedbackReceipt,
            body={"reaction": reaction, "text": text, "ts": ts, "origin": origin, "confidence": confidence},
        )

    async def post_turns_with_feedbacks(
        self,
        conversation_id: str,
        *,
        turn_ids: tuple[str, ...] | Unset | None = UNSET,
        reactions: tuple[Literal["neutral", "not_ok", "ok"], ...] | Unset = UNSET,
        origin: Literal["machine", "user"] | Unset | None = UNSET,
        cursor: str | Unset = UNSET,
        limit: int | Unset = UNSET,
    ) -> types.TurnsWithFeedbacks:
        """List the turns of a conversation that have feedback, with their messages."""
        return await self.request(
            "POST",
            self.path(
                "/conversations/{tenant}/{project}/{conversation_id}/turns-with-feedbacks",
                conversation_id=conversation_id,
            ),
            types.TurnsWithFeedbacks,
            body={"turn_ids": turn_ids, "reactions": reactions, "origin": origin, "cursor": cursor, "limit": limit},
        )

    async def post_fork(
        self, conversation_id: str, *, turn: str | Unset | None = UNSET, seq: int | Unset | None = UNSET
    ) -> types.ForkResult:
        """Fork the conversation: create an independent copy up to a turn or an entry."""
        return await self.request(
            "POST",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/fork", conversation_id=conversation_id),
            types.ForkResult,
            body={"turn": turn, "seq": seq},
        )

    async def post_rerun(
        self, conversation_id: str, *, seq: int, model: str | Unset = UNSET, turns: int | Unset | None = UNSET
    ) -> types.RerunJob:
        """Run the turns after an entry again, on a fork, with the server's model or another selectable one."""
        return await self.request(
            "POST",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/rerun", conversation_id=conversation_id),
            types.RerunJob,
            body={"seq": seq, "model": model, "turns": turns},
        )

    async def delete_rerun(self, conversation_id: str) -> None:
        """Cancel the re-run of a fork, which ends its turn."""
        await self.exchange(
            "DELETE",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/rerun", conversation_id=conversation_id),
        )

    async def get_comparison(
        self, conversation_id: str, *, turns: int | Unset = UNSET, cursor: str | Unset = UNSET
    ) -> types.ForkComparison:
        """Compare the turns of a fork with those of its source after the fork point."""
        return await self.request(
            "GET",
            self.path(
                "/conversations/{tenant}/{project}/{conversation_id}/comparison", conversation_id=conversation_id
            ),
            types.ForkComparison,
            query={"turns": turns, "cursor": cursor},
        )

    async def post_erase(
        self,
        conversation_id: str,
        *,
        paths: tuple[str, ...] | Unset = UNSET,
        all: bool | Unset = UNSET,
        quotes: bool | Unset = UNSET,
    ) -> types.ErasureReport:
        """Permanently erase the content at some paths, or all of it, including everything derived from it."""
        return await self.request(
            "POST",
            self.path("/conversations/{tenant}/{project}/{conversation_id}/erase", conversation_id=conversation_id),
            types.ErasureReport,
            body={"paths": paths, "all": all, "quotes": quotes},
        )

    async def post_approval(
        self, conversation_id: str, call_id: str, *, approved: bool, text: str | Unset = UNSET
    ) -> types.SendReceipt:
        """Approve or reject a call that waits for approval; the turn then continues."""
        return await self.request(
            "POST",
            self.path(
                "/conversations/{tenant}/{project}/{conversation_id}/approvals/{call_id}",
                conversation_id=conversation_id,
                call_id=call_id,
            ),
            types.SendReceipt,
            body={"approved": approved, "text": text},
        )
