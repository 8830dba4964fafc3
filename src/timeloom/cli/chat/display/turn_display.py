"""Displays a turn: prints finished events, and shows running ones in the live area."""

from collections.abc import Callable, Iterable
from typing import Final

from timeloom.cli.chat.display.format import format_count, format_duration
from timeloom.cli.chat.display.labels import (
    UNFORMATTED_NOTE,
    abbreviate_params,
    describe_compaction,
    describe_end,
    find_error,
    format_channel,
    format_plan,
    format_plan_changes,
)
from timeloom.cli.chat.display.reply import StreamingReply
from timeloom.cli.chat.display.running_call import RunningCall
from timeloom.cli.chat.display.transcript import Transcript
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    ApprovalRequested,
    ChannelText,
    CompactionEnded,
    Completion,
    Followup,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Notes,
    Notice,
    PlanRecorded,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    Steer,
    Thinking,
    Titled,
    ToolCall,
    ToolCode,
    TurnEnded,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.payload import Text
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.sources import SourceRow
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import STEERED_ERROR
from timeloom.core.view.views import Views
from timeloom.runtime.context.fit_window import CompactionEvent

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINS_PER_S: Final = 8
MAX_LIVE_PLAN: Final = 8
MAX_PENDING: Final = 3

MODEL_CHANNELS: Final = frozenset({"answer", "thinking", "timeline_text", "canvas", "code"})
"""Channels that carry model output; all other channels carry tool output."""


class TurnDisplay:
    """Displays the events of a conversation's turns; text that arrives streamed and stored is shown once."""

    def __init__(self, transcript: Transcript, now: Callable[[], float]) -> None:
        self._transcript = transcript
        self._now = now
        self.set_conversation(Views)

    def set_conversation(self, views: Callable[[], Views]) -> None:
        """Switch to another conversation, whose views `views` returns."""
        self._views = views
        self._reply = StreamingReply(self._transcript, self._source_rows, self._now)
        self._last_thinking = ""
        self.suggestions: tuple[str, ...] = ()
        """The follow-up messages that the last answer suggests."""
        self._plan: PlanSnapshot | None = None
        self._reset()

    @property
    def thinking(self) -> str:
        """The model's newest thinking."""
        return self._reply.thinking or self._last_thinking

    def begin(self) -> None:
        """Start the display of a running turn."""
        self._since = self._now()
        self.suggestions = ()
        self._transcript.refresh()

    def end(self) -> None:
        """End the live display: the turn ended or waits for approval."""
        self._close_call(None)
        self._reset()
        self._transcript.refresh()

    def on_delta(self, delta: LiveDelta) -> None:
        """Show a piece of streamed text."""
        if delta.channel in MODEL_CHANNELS:
            self._reply.add_delta(delta)
        elif self._call:
            self._call.add_output(delta.text)
        self._transcript.refresh()

    def on_compaction(self, compaction: CompactionEvent) -> None:
        """Print how many tokens a compaction saved, which the stored summary does not contain."""
        if compaction.status == "completed":
            self._transcript.print_message(
                f"· {compaction.before_tokens} tokens of prompt became {compaction.after_tokens}"
            )

    def on_block(self, entry: Entry) -> None:
        """Print a stored entry."""
        block = entry.block
        if getattr(block, "tool_call_id", None) in self._views().visible.inner:
            self._show_program_call(block)
            self._transcript.refresh()
            return
        self._close_call(block)
        match block:
            case ModelCalled() | ModelAnswered() | Thinking() | ToolCode():
                self._show_model_call(block)
            case Completion():
                self._show_completion(entry, block)
            case Notes() | ToolCall() | Notice():
                self._show_activity(block)
            case ResultDigest() | ResultStatus() | ResultContent():
                self._add_result(entry, block)
            case Followup() | Steer() | ApprovalRequested() | ApprovalDecided():
                self._show_user_input(entry, block)
            case PlanRecorded(snapshot=plan):
                self._show_plan(plan)
            case ChannelText():
                for line in format_channel(entry, block):
                    self._transcript.print_message(line, "plain")
            case _:
                self._show_other(block)
        self._transcript.refresh()

    def print_sources(self, sids: Iterable[int]) -> None:
        """Print the sources with these numbers."""
        rows = self._views().sources.pool.rows
        self._transcript.print_sources(rows[sid] for sid in sids if sid in rows)

    def print_answer_end(self, answer: Completion) -> None:
        """Print what belongs below an answer: a note if it is unformatted, and its sources."""
        if answer.unformatted:
            self._transcript.print_message(f"! {UNFORMATTED_NOTE}")
        self.print_sources(answer.sources_used)

    def live_lines(self, most: int) -> list[str]:
        """Return the live area as terminal text, in at most `most` lines."""
        status_lines = [self._status_line(), *self._pending_lines()] if self._since is not None else []
        row_count = max(most - len(status_lines), 0)
        plan: list[str] = []
        if self._plan and self._plan.state == "open" and self._since is not None:
            lines = format_plan(self._plan, min(MAX_LIVE_PLAN, row_count // 2))
            plan = [self._transcript.renderer.render_cut_line(line, "quiet") for line in lines]
        return [*self._live_block(row_count - len(plan)), *plan[: max(row_count, 0)], *status_lines][-max(most, 1) :]

    # Events of the model.

    def _show_model_call(self, block: ModelCalled | ModelAnswered | Thinking | ToolCode) -> None:
        match block:
            case ModelCalled(purpose="decision"):
                self._since = self._now()
                self._next_reply()
                for text in self._pending:
                    self._transcript.print_message(f"+ {text} (seen)")
                self._pending.clear()
            case ModelAnswered(purpose="decision", error=error, detail=detail) if error and error != STEERED_ERROR:
                self._reply.fold_thinking()
                self._reply.withdraw()
                self._transcript.print_message(
                    f"… the model failed: {error}{f': {one_line(detail)}' if detail else ''}"
                )
            case Thinking(text=text):
                self._reply.fold_thinking(stored=True)
                self._last_thinking = text if isinstance(text, str) else ""
            case _:
                pass

    def _show_completion(self, entry: Entry, block: Completion) -> None:
        if not self._reply.complete_answer(block.text):
            if isinstance(block.text, str):
                self._transcript.print_markdown(block.text, sources=self._source_rows())
            else:
                self._transcript.print_message(f"the answer is long; `timeloom inspect {entry.path}` shows it", "plain")
        self.print_answer_end(block)
        self.suggestions = block.suggested_followups
        for n, offer in enumerate(self.suggestions, 1):
            self._transcript.print_message(f"{n}. {one_line(offer)}", "quiet", "offers")

    # Events of tools.

    def _show_activity(self, block: Notes | ToolCall | Notice) -> None:
        match block:
            case Notes(text=text):
                self._reply.clear_note()
                if isinstance(text, str):
                    self._transcript.print_markdown(text, "work")
            case ToolCall(tool_call_id=call_id, tool_id=tool_id, params=params):
                self._reply.withdraw()
                words = f"{one_line(tool_id, 60)} {abbreviate_params(params)}".rstrip()
                self._call = RunningCall(call_id, words, self._now())
            case Notice(text=text, tool_call_id=call_id):
                if call_id is None:
                    self._reply.withdraw()
                self._transcript.print_message(f"! {one_line(text, 300)}")

    def _show_program_call(self, block: AnyBlock) -> None:
        if isinstance(block, ToolCall):
            self._transcript.print_message(
                f"  ↳ {one_line(block.tool_id, 60)} {abbreviate_params(block.params)}".rstrip()
            )
        elif error := find_error(block):
            self._transcript.print_message(f"  ↳ ✗ {one_line(error.message, 300)}")

    def _add_result(self, entry: Entry, block: ResultDigest | ResultStatus | ResultContent) -> None:
        if self._call is None or self._call.call_id != block.tool_call_id:
            # The call was recorded before an approval, or by a process that has ended.
            self._call = self._known_call(entry.turn_id, block.tool_call_id)
        self._call.results.append(block)

    def _known_call(self, turn: TurnId, call_id: CallId) -> RunningCall:
        known = self._views().calls.get(turn, call_id)
        return RunningCall(call_id, one_line(known.tool_id if known else "", 60), self._now())

    def _close_call(self, block: AnyBlock | None) -> None:
        if self._call and self._call.is_over(block):
            self._call.print_result(self._transcript, self._now())
            self._call = None

    def _show_plan(self, plan: PlanSnapshot) -> None:
        before, self._plan = self._plan, plan
        for line in format_plan_changes(before, plan):
            self._transcript.print_message(line)

    # Events of people, and all others.

    def _show_user_input(self, entry: Entry, block: Followup | Steer | ApprovalRequested | ApprovalDecided) -> None:
        match block:
            case Followup(text=text):
                self._pending.append(_short_text(text))
            case Steer(text=text):
                self._reply.interrupt()
                self._transcript.print_user_message(_short_text(text) if text else "stop")
            case ApprovalDecided(approved=approved, by=by, text=text):
                why = f": {one_line(text)}" if text else ""
                self._transcript.print_message(f"{'allowed' if approved else 'refused'} by {one_line(by, 40)}{why}")
                if approved and block.tool_call_id in self._views().progress.calls:
                    self._call = self._known_call(entry.turn_id, block.tool_call_id)
            case ApprovalRequested():
                self._reply.withdraw()
                self._call = None

    def _show_other(self, block: AnyBlock) -> None:
        match block:
            case Titled(text=text):
                self._transcript.title(text)
            case SourcesAdded(rows=rows):
                self._transcript.print_message(f"+ {format_count(len(rows), 'source')}")
            case Hidden() | Pruned() | RangeSummary():
                self._transcript.print_message("· removed older parts of the conversation from the prompt")
            case CompactionEnded():
                self._transcript.print_message(describe_compaction(block), "plain")
            case TurnEnded() if block.reason != "completed":
                self._reply.withdraw()
                self._transcript.print_message(describe_end(block), "plain" if block.reason == "stopped" else "bad")
            case _:
                pass

    # The live area.

    def _status_line(self) -> str:
        now = self._now()
        spin = SPINNER[int(now * SPINS_PER_S) % len(SPINNER)]
        waiting = f"waiting for the model {format_duration(now - (self._since or now))}"
        words = self._call.status_line(now) if self._call else self._reply.status or waiting
        return self._transcript.renderer.render_cut_line(f"{spin} {words}", "quiet")

    def _pending_lines(self) -> list[str]:
        newest = self._pending[-MAX_PENDING:]
        return [self._transcript.renderer.render_cut_line(f"+ {text}", "quiet", " (not seen yet)") for text in newest]

    def _live_block(self, most: int) -> list[str]:
        block = self._reply.live
        if block is None or most <= 0:
            return []
        apart = [""] if block.gap or self._transcript.last_kind != "answer" else []
        return [*apart, *self._transcript.renderer.render_markdown(block, links=False).split("\n")][-most:]

    def _source_rows(self) -> Iterable[SourceRow]:
        return self._views().sources.pool.rows.values()

    def _next_reply(self) -> None:
        self._last_thinking = self.thinking
        self._reply = StreamingReply(self._transcript, self._source_rows, self._now)

    def _reset(self) -> None:
        self._next_reply()
        self._call: RunningCall | None = None
        self._pending: list[str] = []
        self._since: float | None = None


def _short_text(text: Text) -> str:
    return one_line(text) if isinstance(text, str) else "(long)"
