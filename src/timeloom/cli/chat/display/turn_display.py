"""Displays a turn: prints finished events, and shows running ones in the live area."""

from collections.abc import Callable, Iterable
from typing import Final

from timeloom.cli.chat.display.format import counted, duration
from timeloom.cli.chat.display.labels import ending, error_in, plan_changes, plan_lines, short_params
from timeloom.cli.chat.display.reply import ArrivingReply
from timeloom.cli.chat.display.running_call import RunningCall
from timeloom.cli.chat.display.transcript import Page
from timeloom.cli.sanitize import one_line
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    ApprovalRequested,
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
from timeloom.core.view.progress import STEERED
from timeloom.core.view.views import Views
from timeloom.runtime.context.fit_window import Compaction

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINS_PER_S: Final = 8
MAX_LIVE_PLAN: Final = 8
MAX_PENDING: Final = 3

OF_MODELS: Final = frozenset({"answer", "thinking", "timeline_text", "canvas", "code"})
"""Channels that carry model output; all other channels carry tool output."""


class Report:
    """Displays the events of a conversation's turns; text that arrives streamed and stored is shown once."""

    def __init__(self, page: Page, now: Callable[[], float]) -> None:
        self._page = page
        self._now = now
        self.attend(Views)

    def attend(self, views: Callable[[], Views]) -> None:
        """Switch to another conversation, whose views `views` returns."""
        self._views = views
        self._reply = ArrivingReply(self._page, self._rows, self._now)
        self._thought = ""
        self.offers: tuple[str, ...] = ()
        """The follow-up messages that the last answer suggests."""
        self._plan: PlanSnapshot | None = None
        self._forget()

    @property
    def thinking(self) -> str:
        """The model's newest thinking."""
        return self._reply.thoughts or self._thought

    def begin(self) -> None:
        """Start the display of a running turn."""
        self._since = self._now()
        self.offers = ()
        self._page.refresh()

    def end(self) -> None:
        """End the live display: the turn ended or waits for approval."""
        self._close_call(None)
        self._forget()
        self._page.refresh()

    def delta(self, delta: LiveDelta) -> None:
        """Show a piece of streamed text."""
        if delta.channel in OF_MODELS:
            self._reply.take(delta)
        elif self._call:
            self._call.hear(delta.text)
        self._page.refresh()

    def compaction(self, compaction: Compaction) -> None:
        """Print how many tokens a compaction saved, which the stored summary does not contain."""
        if compaction.status == "completed":
            self._page.say(f"· {compaction.before_tokens} tokens of prompt became {compaction.after_tokens}")

    def block(self, entry: Entry) -> None:
        """Print a stored entry."""
        block = entry.block
        if getattr(block, "tool_call_id", None) in self._views().visible.inner:
            self._called_by_a_program(block)
            self._page.refresh()
            return
        self._close_call(block)
        match block:
            case ModelCalled() | ModelAnswered() | Thinking() | ToolCode():
                self._asked(block)
            case Completion():
                self._completed(entry, block)
            case Notes() | ToolCall() | Notice():
                self._acted(block)
            case ResultDigest() | ResultStatus() | ResultContent():
                self._came(entry, block)
            case Followup() | Steer() | ApprovalRequested() | ApprovalDecided():
                self._heard(entry, block)
            case PlanRecorded(snapshot=plan):
                self._planned(plan)
            case _:
                self._went_on(block)
        self._page.refresh()

    def sources(self, sids: Iterable[int]) -> None:
        """Print the sources with these numbers."""
        rows = self._views().sources.pool.rows
        self._page.sources(rows[sid] for sid in sids if sid in rows)

    def live(self, most: int) -> list[str]:
        """Return the live area as terminal text, in at most `most` lines."""
        foot = [self._status_line(), *self._pending_lines()] if self._since is not None else []
        room = max(most - len(foot), 0)
        plan: list[str] = []
        if self._plan and self._plan.state == "open" and self._since is not None:
            lines = plan_lines(self._plan, min(MAX_LIVE_PLAN, room // 2))
            plan = [self._page.drawing.cut(line, "quiet") for line in lines]
        return [*self._live_block(room - len(plan)), *plan[: max(room, 0)], *foot][-max(most, 1) :]

    # Events of the model.

    def _asked(self, block: ModelCalled | ModelAnswered | Thinking | ToolCode) -> None:
        match block:
            case ModelCalled(purpose="decision"):
                self._since = self._now()
                self._next_reply()
                for text in self._pending:
                    self._page.say(f"+ {text} (seen)")
                self._pending.clear()
            case ModelAnswered(purpose="decision", error=error, detail=detail) if error and error != STEERED:
                self._reply.fold_thinking()
                self._reply.withdraw()
                self._page.say(f"… the model failed: {error}{f': {one_line(detail)}' if detail else ''}")
            case Thinking(text=text):
                self._reply.fold_thinking(told=True)
                self._thought = text if isinstance(text, str) else ""
            case _:
                pass

    def _completed(self, entry: Entry, block: Completion) -> None:
        if not self._reply.complete(block.text):
            if isinstance(block.text, str):
                self._page.markdown(block.text, sources=self._rows())
            else:
                self._page.say(f"the answer is long; `timeloom inspect {entry.path}` shows it", "plain")
        self.sources(block.sources_used)
        self.offers = block.suggested_followups
        for n, offer in enumerate(self.offers, 1):
            self._page.say(f"{n}. {one_line(offer)}", "quiet", "offers")

    # Events of tools.

    def _acted(self, block: Notes | ToolCall | Notice) -> None:
        match block:
            case Notes(text=text):
                self._reply.noted()
                if isinstance(text, str):
                    self._page.markdown(text, "work")
            case ToolCall(tool_call_id=call_id, tool_id=tool_id, params=params):
                self._reply.withdraw()
                words = f"{one_line(tool_id, 60)} {short_params(params)}".rstrip()
                self._call = RunningCall(call_id, words, self._now())
            case Notice(text=text, tool_call_id=call_id):
                if call_id is None:
                    self._reply.withdraw()
                self._page.say(f"! {one_line(text, 300)}")

    def _called_by_a_program(self, block: AnyBlock) -> None:
        if isinstance(block, ToolCall):
            self._page.say(f"  ↳ {one_line(block.tool_id, 60)} {short_params(block.params)}".rstrip())
        elif error := error_in(block):
            self._page.say(f"  ↳ ✗ {one_line(error.message, 300)}")

    def _came(self, entry: Entry, block: ResultDigest | ResultStatus | ResultContent) -> None:
        if self._call is None or self._call.call_id != block.tool_call_id:
            # The call was recorded before an approval, or by a process that has ended.
            self._call = self._known_call(entry.turn_id, block.tool_call_id)
        self._call.results.append(block)

    def _known_call(self, turn: TurnId, call_id: CallId) -> RunningCall:
        known = self._views().calls.get(turn, call_id)
        return RunningCall(call_id, one_line(known.tool_id if known else "", 60), self._now())

    def _close_call(self, block: AnyBlock | None) -> None:
        if self._call and self._call.is_over(block):
            self._call.close(self._page, self._now())
            self._call = None

    def _planned(self, plan: PlanSnapshot) -> None:
        before, self._plan = self._plan, plan
        for line in plan_changes(before, plan):
            self._page.say(line)

    # Events of people, and all others.

    def _heard(self, entry: Entry, block: Followup | Steer | ApprovalRequested | ApprovalDecided) -> None:
        match block:
            case Followup(text=text):
                self._pending.append(_words(text))
            case Steer(text=text):
                self._reply.break_off()
                self._page.echo(_words(text) if text else "stop")
            case ApprovalDecided(approved=approved, by=by, text=text):
                why = f": {one_line(text)}" if text else ""
                self._page.say(f"{'allowed' if approved else 'refused'} by {one_line(by, 40)}{why}")
                if approved and block.tool_call_id in self._views().progress.calls:
                    self._call = self._known_call(entry.turn_id, block.tool_call_id)
            case ApprovalRequested():
                self._reply.withdraw()
                self._call = None

    def _went_on(self, block: AnyBlock) -> None:
        match block:
            case Titled(text=text):
                self._page.title(text)
            case SourcesAdded(rows=rows):
                self._page.say(f"+ {counted(len(rows), 'source')}")
            case Hidden() | Pruned() | RangeSummary():
                self._page.say("· removed older parts of the conversation from the prompt")
            case TurnEnded() if block.reason != "completed":
                self._reply.withdraw()
                self._page.say(ending(block), "plain" if block.reason == "stopped" else "bad")
            case _:
                pass

    # The live area.

    def _status_line(self) -> str:
        now = self._now()
        spin = SPINNER[int(now * SPINS_PER_S) % len(SPINNER)]
        waiting = f"waiting for the model {duration(now - (self._since or now))}"
        words = self._call.doing(now) if self._call else self._reply.doing or waiting
        return self._page.drawing.cut(f"{spin} {words}", "quiet")

    def _pending_lines(self) -> list[str]:
        newest = self._pending[-MAX_PENDING:]
        return [self._page.drawing.cut(f"+ {text}", "quiet", " (not seen yet)") for text in newest]

    def _live_block(self, most: int) -> list[str]:
        block = self._reply.live
        if block is None or most <= 0:
            return []
        apart = [""] if block.gap or self._page.last_kind != "answer" else []
        return [*apart, *self._page.drawing.markdown(block, links=False).split("\n")][-most:]

    def _rows(self) -> Iterable[SourceRow]:
        return self._views().sources.pool.rows.values()

    def _next_reply(self) -> None:
        self._thought = self.thinking
        self._reply = ArrivingReply(self._page, self._rows, self._now)

    def _forget(self) -> None:
        self._next_reply()
        self._call: RunningCall | None = None
        self._pending: list[str] = []
        self._since: float | None = None


def _words(text: Text) -> str:
    return one_line(text) if isinstance(text, str) else "(long)"
