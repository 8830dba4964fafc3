"""Citations of text on its way, by channel and by the file that is written."""

from pathlib import Path

import pytest

from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, calls, run
from timeloom.core.citations.formats import CitationFormat
from timeloom.core.citations.rewriter import CitationRewriter
from timeloom.core.paths import MAX_PATH_CHARS
from timeloom.core.sources import NewSource, SourceRow, SourcesPool
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.runtime.hub.live_citations import LiveCitationRewriter

TEXT = "Juist is cheaper [[S:1]], they say [[S:"


def known() -> dict[int, SourceRow]:
    source = NewSource(source_type="web", title="Fares", url="https://example.org/fares")
    return {row.sid: row for row in SourcesPool().merge([source]).added}


def heard(channel: str, file: str = "", *, piece: int = 3) -> str:
    told: list[LiveDelta] = []
    citing = LiveCitationRewriter(known, told.append)
    for start in range(0, len(TEXT), piece):
        citing.feed(LiveDelta(channel, 2, TEXT[start : start + piece], file))
    citing.close()
    assert {(delta.channel, delta.index, delta.file) for delta in told} == {(channel, 2, file)}
    return "".join(delta.text for delta in told)


def rewritten(form: CitationFormat) -> str:
    rewriter = CitationRewriter(known().values(), form)
    return rewriter.feed(TEXT) + rewriter.close()


@pytest.mark.parametrize(
    ("channel", "file", "form"),
    [
        ("answer", "", "markdown"),
        ("timeline_text", "", "markdown"),
        ("canvas", "files/a.md", "markdown"),
        ("canvas", "page.html", "html"),
        ("canvas", "a.txt", "text"),
        ("timeline_text", "a.html", "html"),
    ],
)
def test_citations_become_marks_in_the_format_of_the_text(channel: str, file: str, form: CitationFormat) -> None:
    assert heard(channel, file) == rewritten(form) != TEXT
    assert heard(channel, file, piece=1000) == rewritten(form)


@pytest.mark.parametrize(
    ("channel", "file"), [("canvas", "main.py"), ("canvas", ""), ("code", ""), ("thinking", ""), ("stdout", "")]
)
def test_what_is_no_text_for_people_stays_as_it_is(channel: str, file: str) -> None:
    assert heard(channel, file) == TEXT


def test_each_reply_begins_anew() -> None:
    told: list[LiveDelta] = []
    citing = LiveCitationRewriter(known, told.append)
    for _ in range(2):
        citing.feed(LiveDelta("answer", 0, "[[S:1]]"))
        citing.close()
    texts = ["".join(delta.text for delta in half) for half in (told[: len(told) // 2], told[len(told) // 2 :])]
    assert texts[0] == texts[1] != ""


def test_the_file_that_is_written_is_said_with_its_text(tmp_path: Path) -> None:
    async def check() -> None:
        stage = TurnHarness(tmp_path, calls("react.write", path="files/a.md", content="A page."), answers("Done."))
        turns = await stage.open()
        await turns.run("go")
        assert {delta.file for delta in stage.deltas if delta.channel == "canvas"} == {"files/a.md"}

    run(check)


def test_what_is_too_long_for_a_path_is_not_gathered(tmp_path: Path) -> None:
    async def check() -> None:
        reply = calls("react.write", path="x" * 100_000, content="A page.")
        stage = TurnHarness(tmp_path, {"reply": reply, "chunk": 16}, answers("Done."))
        turns = await stage.open()
        await turns.run("go")
        (file,) = {delta.file for delta in stage.deltas if delta.channel == "canvas"}
        assert MAX_PATH_CHARS < len(file) < MAX_PATH_CHARS + 100

    run(check)
