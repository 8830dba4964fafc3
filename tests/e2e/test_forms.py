"""`timeloom chat` without a terminal shows a form and takes its answer as a command."""

from pathlib import Path

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls

FIELDS = [{"name": "day", "label": "Which day?", "type": "date", "required": True}]


def test_a_form_is_answered_by_a_line_of_standard_input(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    ask = calls("react.form", title="Your trip", fields=FIELDS)
    stage.script(ask, answers("Please fill it in."), answers("Booked."), {"reply": "Trip", "when": "title"})
    lines = ["book", '/form {"day": "tomorrow"}', '/form {"day": "2026-11-18"}', "/form {}"]
    done = stage.run("chat", "--tools", "timeloom.tools.react.form:form", typed="\n".join(lines) + "\n")
    assert (done.returncode, done.stdout) == (1, "Please fill it in.\nBooked.\n"), done.stderr
    assert "Which day? (a date such as 2026-11-18; required)" in done.stderr
    assert 'answer it with a line such as /form {"day":"2026-11-18"}' in done.stderr
    assert "the field day must be a date such as 2026-11-18" in done.stderr
    assert "no form waits for an answer" in done.stderr
