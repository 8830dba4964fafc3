"""The display of a turn: permanent lines and live lines."""

import pytest

from timeloom.cli.chat.display.render import TerminalRenderer
from timeloom.cli.chat.display.transcript import Transcript
from timeloom.cli.chat.display.turn_display import TurnDisplay
from timeloom.core.blocks import (
    AnyBlock,
    ApprovalDecided,
    ApprovalRequested,
    ChannelText,
    Completion,
    Followup,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Notes,
    Notice,
    PlanRecorded,
    ResultStatus,
    SourcesAdded,
    Steer,
    Thinking,
    Titled,
    ToolCall,
    ToolError,
    TurnEnded,
)
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.plans.snapshot import PlanSnapshot, StepStatus
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views

TURN = TurnId("turn_1")
CALL = CallId("0123456789ab")
ASKED = ModelCalled(round=1, model="m", request_sha256="0" * 64)


class Sheet:
    """A terminal of some width, its paper and its clock."""

    def __init__(self, columns: int = 60, *, links: bool = False) -> None:
        self.lines: list[str] = []
        self.titles: list[str] = []
        self.now = 0.0
        self.views = Views()
        self.page = Transcript(self, TerminalRenderer(lambda: columns, colour=False, links=links))
        self.report = TurnDisplay(self.page, lambda: self.now)
        self.report.set_conversation(lambda: self.views)
        self.report.begin()

    def print(self, text: str) -> None:
        self.lines += text.split("\n")

    def refresh(self) -> None:
        pass

    def title(self, text: str) -> None:
        self.titles.append(text)

    def take(self, *blocks: AnyBlock) -> None:
        for block in blocks:
            entry = Entry(turn_id=TURN, ts="2026-02-09T02:14:32Z", block=block, seq=self.views.tail + 1)
            self.views.add(entry)
            self.report.on_block(entry)

    def hear(self, channel: str, *texts: str) -> None:
        for text in texts:
            self.report.on_delta(LiveDelta(channel, 0, text))

    def live(self, most: int = 20) -> list[str]:
        return [strip(line) for line in self.report.live_lines(most)]

    @property
    def text(self) -> str:
        return "\n".join(map(strip, self.lines))


def strip(line: str) -> str:
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[1;4m", "\x1b[4m"):
        line = line.replace(code, "")
    return line


def test_an_answer_is_printed_block_by_block_and_once() -> None:
    sheet = Sheet()
    sheet.take(ASKED)
    sheet.hear("answer", "One.\n\nTw")
    assert sheet.text == "One."
    assert sheet.live()[0] == "Tw"
    sheet.hear("answer", "o.")
    sheet.take(ModelAnswered(round=1, model="m", stop_reason="end"), Completion(text="One.\n\nTwo."))
    assert sheet.text == "One.\n\nTwo."


def test_a_stored_answer_is_known_by_its_reference() -> None:
    sheet = Sheet()
    sheet.take(ASKED)
    sheet.hear("answer", "Long.")
    sheet.take(Completion(text=ref_of(b"Long.")))
    assert sheet.text == "Long."
    sheet.take(Completion(text=ref_of(b"Another."), n=2))
    assert sheet.text.endswith("`timeloom inspect\n  ar:turn_1.assistant.completion.2` shows it")


def test_an_answer_outside_the_reply_format_has_a_note_below_it() -> None:
    sheet = Sheet(columns=100)
    sheet.take(ASKED, Completion(text="It will rain.", unformatted=True))
    assert sheet.text.splitlines()[0] == "It will rain."
    assert sheet.text.endswith("! the model did not keep to the reply format; this is its plain text")


def test_an_answer_that_was_none_is_withdrawn() -> None:
    sheet = Sheet()
    sheet.take(ASKED)
    sheet.hear("answer", "Wrong.\n\nVery wr")
    sheet.take(ModelAnswered(round=1, model="m", stop_reason="cut", error="cut", detail="gone"))
    assert sheet.text == "Wrong.\n\n(withdrawn: that was not the answer)\n… the model failed: cut: gone"
    sheet.take(ASKED)
    sheet.hear("answer", "Never printed")
    sheet.take(Notice(code="x", text="not so"), Completion(text="Right."))
    assert sheet.text.endswith("! not so\n\nRight.")
    assert "Never" not in sheet.text


def test_what_a_steer_breaks_off_is_kept_and_the_rest_of_the_reply_ignored() -> None:
    sheet = Sheet()
    sheet.take(ASKED)
    sheet.hear("answer", "So far")
    sheet.take(Steer(message_id=MessageId("0123456789ab"), text="other way"))
    sheet.hear("answer", " and no further")
    sheet.take(ModelAnswered(round=1, model="m", stop_reason="steered", error="steered"))
    assert sheet.text == "So far\n\n(broken off)\n\n> other way"


def test_a_stop_shows_as_such() -> None:
    sheet = Sheet()
    sheet.take(Steer(message_id=MessageId("0123456789ab")), TurnEnded(reason="stopped", text="the user stopped it"))
    assert sheet.text == "> stop\n\nstopped: the user stopped it"


def test_thinking_is_one_line_with_its_time_and_kept_whole() -> None:
    sheet = Sheet()
    sheet.take(ASKED)
    sheet.hear("thinking", "Let me", " see.")
    sheet.now = 2.5
    assert sheet.live() == [f"{sheet.live()[0][0]} thinking 2.5 s"]
    sheet.hear("answer", "Yes.")
    sheet.take(Thinking(round=1, text="Let me see."), Completion(text="Yes."))
    assert sheet.text == "· thought for 2.5 s\n\nYes."
    assert sheet.report.thinking == "Let me see."


def test_thinking_that_did_not_stream_is_told_too() -> None:
    sheet = Sheet()
    sheet.take(ASKED, Thinking(round=1, text="Quietly."))
    assert (sheet.text, sheet.report.thinking) == ("· thought", "Quietly.")


def test_a_call_runs_with_its_time_and_ends_with_its_result() -> None:
    sheet = Sheet()
    sheet.hear("timeline_text", "Loo")
    assert sheet.live()[1] == "Loo"
    sheet.take(Notes(tool_call_id=CALL, text="Looking."))
    sheet.take(ToolCall(tool_id="web.search", tool_call_id=CALL, params='{"q":"ferries"}'))
    sheet.hear("progress", "page 1\n", "page 2")
    sheet.now = 1.5
    assert sheet.live()[-1][2:] == "web.search q=ferries 1.5 s · page 2"
    sheet.take(ResultStatus(tool_call_id=CALL, text="3 found"), TurnEnded(reason="completed"))
    assert sheet.text == "Looking.\n✓ web.search q=ferries · 1.5 s · 3 found"


def test_what_a_program_calls_is_told_below_it_and_its_call_runs_on() -> None:
    sheet = Sheet()
    inner = CallId("ba9876543210")
    sheet.take(ASKED, ToolCall(tool_id="exec_tools.execute_code_python", tool_call_id=CALL))
    sheet.take(ToolCall(tool_id="web.search", tool_call_id=inner, params='{"query":"ferries"}', by=CALL))
    sheet.take(ResultStatus(tool_call_id=inner, text="no", error=ToolError("tool_timeout", "too slow")))
    assert any("execute_code_python" in line for line in sheet.live())
    sheet.take(ResultStatus(tool_call_id=CALL, text="ok"), ASKED)
    assert [line.strip()[:14] for line in sheet.text.splitlines()] == [
        "↳ web.search q",
        "↳ ✗ too slow",
        "✓ exec_tools.e",
    ]


def test_a_call_that_failed_says_why_in_plain_words() -> None:
    sheet = Sheet()
    sheet.take(ToolCall(tool_id="web.search", tool_call_id=CALL))
    error = ToolError("no_such", "There is no net.")
    sheet.take(ResultStatus(tool_call_id=CALL, text="", error=error), Notice(code="x", text="so", tool_call_id=CALL))
    sheet.report.end()
    assert sheet.text == "! so\n✗ web.search · 0.0 s\n  There is no net."


def plan(*statuses: StepStatus) -> PlanRecorded:
    steps = tuple(f"step {n}" for n in range(len(statuses)))
    snapshot = PlanSnapshot(plan_id=PlanId("plan:turn_1:20a5"), steps=steps, statuses=statuses)
    return PlanRecorded(snapshot=snapshot)


def test_the_plan_is_live_and_its_changes_are_printed() -> None:
    sheet = Sheet()
    sheet.take(plan("pending", "pending"), plan("done", "pending"))
    assert sheet.live()[:2] == ["✓ step 0", "□ step 1"]
    sheet.take(plan("done", "done"))
    assert len(sheet.live()) == 1
    assert sheet.text == "□ step 0\n□ step 1\n✓ step 0\n✓ step 1"


def test_a_follow_up_is_live_until_the_model_has_seen_it() -> None:
    sheet = Sheet()
    sheet.take(ASKED, Followup(message_id=MessageId("0123456789ab"), text="and this"))
    assert sheet.live()[-1] == "+ and this (not seen yet)"
    sheet.take(ModelCalled(round=2, model="m", request_sha256="0" * 64))
    assert sheet.text == "+ and this (seen)"
    assert len(sheet.live()) == 1
    narrow = Sheet(30)
    narrow.take(ASKED, Followup(message_id=MessageId("0123456789ab"), text="and this and that"))
    assert narrow.live()[-1] == "+ and this an… (not seen yet)"


def test_sources_are_listed_below_the_answer_and_follow_ups_numbered() -> None:
    rows = SourcesPool().merge([NewSource(title="Ferry fares", url="https://ferries.example/fares")]).added
    for links, shown in ((False, "[1] Ferry fares https://ferries.example/fares"), (True, "ferries.example")):
        sheet = Sheet(links=links)
        sheet.take(SourcesAdded(rows=rows), ASKED)
        sheet.hear("answer", "It is 74 [[S:", "1]].")
        sheet.take(Completion(text="It is 74 [[S:1]].", sources_used=(1, 9), suggested_followups=("More?",)))
        assert shown in sheet.text
        assert sheet.text.endswith("1. More?")
        assert ("\x1b]8;" in "".join(sheet.lines)) is links
        assert sheet.report.suggestions == ("More?",)


def test_decisions_of_people_and_acts_of_forgetting_are_told() -> None:
    sheet = Sheet()
    sheet.take(
        ApprovalRequested(tool_call_id=CALL, tool_id="x", text="why"),
        ApprovalDecided(tool_call_id=CALL, approved=False, by="ann", text="too much"),
        ApprovalDecided(tool_call_id=CALL, approved=True, by="bob"),
        Hidden(target=f"tc:turn_1.{CALL}.call", replacement="gone"),
        Titled(text="A \x1b[31mtitle"),
    )
    assert sheet.text.startswith("refused by ann: too much\nallowed by bob\n· removed older parts")
    assert sheet.titles == ["A ␛[31mtitle"]


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_what_is_live_never_takes_more_lines_than_there_are(most: int) -> None:
    sheet = Sheet(20)
    pending: list[StepStatus] = ["pending"] * 20
    sheet.take(plan(*pending), ASKED)
    for n in range(5):
        sheet.take(Followup(message_id=MessageId(f"0123456789a{n}"), text="more"))
    sheet.hear("answer", "word " * 100)
    assert 1 <= len(sheet.live(most)) <= most


def test_writing_shows_how_far_it_is() -> None:
    sheet = Sheet()
    sheet.take(ASKED)
    assert "waiting for the model" in sheet.live()[0]
    sheet.hear("canvas", "x" * 1500)
    assert sheet.live()[0][2:] == "writing, 1,500 characters"


def test_a_channel_is_text_with_its_name() -> None:
    sheet = Sheet()
    long = "\n".join(f"line {n}" for n in range(60))
    sheet.take(ChannelText(channel="log", mime="text/plain", text=long, round=1))
    assert [line.strip() for line in sheet.text.split("\n") if line.strip()][:3] == ["log:", "line 0", "line 1"]
    assert "20 more lines" in sheet.text
    sheet.take(ChannelText(channel="chart", mime="text/plain", text=ref_of(b"x" * 99), round=1))
    assert "99 bytes" in sheet.text
