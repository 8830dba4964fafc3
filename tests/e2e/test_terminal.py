"""`timeloom chat` on a terminal, as a person uses it: a real pseudo-terminal, a scripted model that takes its time."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls, slow_reply, thinking_text

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\u202egnp.exe &#27;[1m"


@pytest.fixture
def stage(tmp_path: Path) -> ChatHarness:
    return ChatHarness(tmp_path)


def test_a_turn_is_shown_as_it_happens(stage: ChatHarness) -> None:
    stage.script(
        slow_reply(
            thinking_text("Hm. A plan.") + calls("react.plan", mode="new", steps=["Write it down", "Say so"]),
            delay_ms=50,
        ),
        calls("react.write", "✓ [1] Written.", path="files/note.md", content="# Note"),
        calls("nobody.knows"),
        slow_reply(answers("# Done\n\nIt is **written**:\n\n- one\n- two\n", "Read it", "Forget it"), delay_ms=50),
        answers("Read."),
    )
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.enter("write a note")
        shown = terminal.wait("thought for", "✓ react.write", "✗ nobody.knows", "2. Forget it", "tokens in")
        assert "□ Say so" in shown
        assert "✓ Write it down" in shown
        assert re.search(r"^Done\n\nIt is written:\n\n • one\n • two$", shown, re.MULTILINE)
        terminal.enter("1")
        terminal.wait("> Read it", "Read.")
        terminal.enter("/thinking")
        terminal.wait("Hm. A plan.")
        terminal.type("\x04")
        assert terminal.wait_exit() == 0


def test_what_is_typed_while_it_works_is_a_follow_up_that_is_taken_when_it_is_seen(stage: ChatHarness) -> None:
    stage.script(
        slow_reply(answers("The first answer takes a while to write."), delay_ms=50),
        answers("The second answer knows both."),
    )
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.enter("begin")
        terminal.wait("The first")
        terminal.enter("and this too")
        terminal.wait("+ and this too (not seen yet)")
        shown = terminal.wait("The second answer knows both.", "tokens in")
        assert "+ and this too (seen)" in shown
        assert shown.index("a while to write.") < shown.index("(seen)") < shown.index("The second")


def test_ctrl_c_asks_for_a_new_course(stage: ChatHarness) -> None:
    stage.script(
        slow_reply(answers("This is the wrong way to go about it all."), chunk=4, delay_ms=200),
        answers("The right way."),
    )
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.enter("begin")
        terminal.wait("This is")
        terminal.type("\x03")
        terminal.wait("new instructions (empty stops)>")
        terminal.enter("the other way")
        shown = terminal.wait("The right way.", "tokens in")
        assert "(broken off)" in shown
        assert "> the other way" in shown


def test_ctrl_c_and_an_empty_line_stop_the_turn(stage: ChatHarness) -> None:
    stage.script(slow_reply(answers("This goes on for much too long."), chunk=2, delay_ms=200), answers("Next."))
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.enter("begin")
        terminal.wait("This")
        terminal.type("\x03")
        terminal.wait("new instructions")
        terminal.enter("")
        terminal.wait("> stop", "stopped")
        terminal.enter("again")
        terminal.wait("Next.")


def test_ctrl_c_twice_leaves_and_the_turn_goes_on_later(stage: ChatHarness) -> None:
    stage.script(slow_reply(answers("An answer that nobody waited for at first."), chunk=2, delay_ms=100))
    with stage.chat() as terminal:
        conversation = re.findall(r"conv_\w+", terminal.wait("conversation conv_", "/help"))[0]
        terminal.enter("begin")
        terminal.wait("An answer")
        terminal.type("\x03")
        terminal.wait("new instructions")
        terminal.type("\x03")
        assert terminal.wait_exit() == 0
    with stage.chat("--conversation", conversation) as terminal:
        terminal.wait("resuming the interrupted turn", "An answer that nobody waited for at first.", "tokens in")


def test_a_turn_whose_program_was_killed_goes_on_by_itself(stage: ChatHarness) -> None:
    stage.script(
        calls("react.write", path="files/a.md", content="b"),
        slow_reply(answers("Written, and said so."), chunk=2, delay_ms=200),
    )
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.enter("begin")
        terminal.wait("✓ react.write", "Writ")
    stage.script(calls("react.write", path="files/a.md", content="b"), answers("Written, and said so."))
    with stage.chat("--resume") as terminal:
        shown = terminal.wait("> begin", "resuming the interrupted turn", "Written, and said so.", "tokens in")
        assert "✓ react.write" not in shown


def test_several_lines_are_typed_with_alt_enter_or_pasted(stage: ChatHarness) -> None:
    stage.script(answers("Four lines."))
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.type("one\x1b\rtwo")
        terminal.type("\x1b[200~\nthree\nfour\x1b[201~")
        terminal.wait("four")
        terminal.enter("")
        shown = terminal.wait("Four lines.", "tokens in")
        assert "> one\n  two\n  three\n  four" in shown
    assert (stage.data / "chat_history").stat().st_mode & 0o077 == 0


def test_a_file_goes_with_a_message_and_a_binary_is_refused(stage: ChatHarness, tmp_path: Path) -> None:
    (tmp_path / "fares.csv").write_text("ferry,price\nFrisia,74\n")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    stage.script(answers("It is 74."))
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.enter(f"/attach {tmp_path / 'photo.png'}")
        terminal.wait("only text files can be attached")
        terminal.enter(f"/attach {tmp_path / 'fares.csv'}")
        terminal.wait("fares.csv (22 bytes) will be sent with the next message")
        terminal.enter("what does it cost?")
        terminal.wait("with fares.csv", "It is 74.", "tokens in")
        terminal.enter("/timeline")
        terminal.wait("user.attachment.meta", "ferry,price Frisia,74")


def test_commands_say_what_they_know_and_unknown_ones_what_was_meant(stage: ChatHarness) -> None:
    stage.script(answers("Yes."))
    with stage.chat(rows=60) as terminal:
        terminal.wait("/help")
        for line, said in (
            ("/sorces", "did you mean /sources?"),
            ("/sources", "there are no sources yet"),
            ("/plan", "there is no open plan"),
            ("/timeline", "the timeline has no turn yet"),
            ("/thinking", "the model has shown no thinking yet"),
            ("/model nobody:x", "'nobody' is not a known provider"),
            ("/attach", "name a text file: /attach PATH"),
            ("/help", "a message that begins with a slash"),
            ("//etc is a folder?", "1 round · "),
            ("/cost", "this conversation: 1 round"),
        ):
            terminal.enter(line)
            terminal.wait(said)
        terminal.enter("/quit")
        assert terminal.wait_exit() == 0


def test_an_earlier_conversation_is_found_by_its_words_and_gone_on_with(stage: ChatHarness) -> None:
    titles: dict[str, object] = {"reply": "Ferries", "when": "title", "repeat": True}
    stage.script(answers("Ferries are slow."), answers("And cheap."), titles)
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.enter("tell me of ferries")
        terminal.wait("Ferries are slow.", "tokens in")
        terminal.enter("/new")
        terminal.wait("> /new\n\nconversation conv_")
        terminal.enter("/resume dragons")
        terminal.wait("no other conversation contains 'dragons'")
        terminal.enter("/resume ferr")
        terminal.wait("  1. ")
        terminal.enter("1")
        terminal.wait("> tell me of ferries\n\nFerries are slow.\n>")
        terminal.enter("what else?")
        terminal.wait("And cheap.")


def test_the_model_is_changed_for_the_next_turns(stage: ChatHarness, tmp_path: Path) -> None:
    stage.script(answers("From the first."))
    (tmp_path / "other.yaml").write_text(json.dumps([{"reply": "unused"}, {"reply": answers("From the other.")}]))
    with stage.chat() as terminal:
        terminal.wait("/help")
        terminal.enter("begin")
        terminal.wait("From the first.", "tokens in")
        terminal.enter(f"/model script:{tmp_path / 'other.yaml'}")
        terminal.wait("from the next turn on")
        terminal.enter("and now?")
        terminal.wait("From the other.")


def test_what_others_wrote_cannot_command_the_terminal(stage: ChatHarness) -> None:
    hostile = [HOSTILE, f"`{HOSTILE}`", f"```{HOSTILE}\n{HOSTILE}\n```", f"[{HOSTILE}](https://e.org/{HOSTILE})"]
    stage.script(
        thinking_text(HOSTILE) + calls("react.plan", HOSTILE, mode="new", steps=[HOSTILE.replace("\x9b", "")]),
        calls("react.write", HOSTILE, path=f"files/{HOSTILE}", content=HOSTILE),
        calls(f"react.{HOSTILE}", **{HOSTILE: HOSTILE}),
        answers("\n\n".join([*hostile, "The end."]), HOSTILE),
    )
    with stage.chat(FORCE_HYPERLINK="1") as terminal:
        terminal.wait("/help")
        terminal.enter("begin")
        terminal.wait("The end.", "tokens in")
        for command in ("/thinking", "/plan", "/timeline"):
            terminal.enter(command)
        terminal.enter("/cost")
        terminal.wait("this conversation")
        # The title comes last, and it is of our own making.
        assert b"\x1b]0;owned" not in terminal.raw
        assert b"\x1b[2J" not in terminal.raw
        assert b"\x1b[31mred" not in terminal.raw
        assert "\x9b".encode() not in terminal.raw
        assert "\u202e".encode() not in terminal.raw
        assert "\x1b[31mred" not in terminal.text
        assert "␛[31mred" in terminal.text


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("links", ["0", "1"])
def test_citations_are_numbers_with_their_sources_below(stage: ChatHarness, columns: int, links: str) -> None:
    conversation = re.findall(r"conv_\w+", stage.run("demo").stdout)[-1]
    stage.script({"reply": answers("It is 74 [[S:1]], not 89 [[S:2]]."), "repeat": 20, "chunk": 5})
    with stage.chat("--conversation", conversation, columns=columns, FORCE_HYPERLINK=links) as terminal:
        terminal.wait("74.00 € [1] against")
        terminal.enter("what does it cost?")
        shown = terminal.wait("It is 74 [1], not 89 [2].", "tokens in")
        assert "[[S:" not in shown
        assert re.search(r"not 89 \[2\]\.\n\n\[1\] Ferry fares 2026[^\n]*\n(?: [^\n]*\n)*\[2\] Islander", shown)
        assert (b";https://ferries.example/fares" in terminal.raw) is (links == "1")
        assert ("https:" in shown) is (links == "0")


@pytest.mark.parametrize("rows", [8, 24])
def test_a_narrow_terminal_shows_everything(stage: ChatHarness, rows: int) -> None:
    steps = [f"step {n} of many that are long" for n in range(12)]
    stage.script(
        calls("react.plan", "I plan.", mode="new", steps=steps),
        calls("react.write", path="files/a/rather/long/name.md", content="x" * 500),
        slow_reply(
            answers(
                "> 1. - deep\n\n| a | b | c |\n|---|---|---|\n| one | two | three |\n\n`code` and words at the end."
            ),
            delay_ms=50,
        ),
    )
    with stage.chat(columns=20, rows=rows) as terminal:
        terminal.wait("/help")
        terminal.enter("begin with a message that is longer than a line")
        shown = terminal.wait("the end.", "tokens in")
        assert max(map(len, shown.split("\n"))) <= 20
        for word in ("three", "deep", "step 11"):
            assert word in shown


def test_nothing_that_scrolled_away_is_lost(stage: ChatHarness) -> None:
    lines = [f"line {n} of the answer" for n in range(200)]
    code = "\n".join(f"code {n}" for n in range(100))
    stage.script(
        {"reply": answers("\n\n".join(lines) + f"\n\n```\n{code}\n```\n\nThe end."), "chunk": 40, "delay_ms": 1}
    )
    with stage.chat(rows=10) as terminal:
        terminal.wait("/help")
        terminal.enter("begin")
        shown = terminal.wait("The end.", "tokens in")
        assert [line for line in shown.split("\n") if line.startswith("line ")] == lines
        assert [line for line in shown.split("\n") if line.startswith("  code ")] == [f"  code {n}" for n in range(100)]


def test_no_colour_means_no_colour(stage: ChatHarness) -> None:
    stage.script(calls("nobody.knows"), answers("# A\n\n`b` [c](https://e.org)\n\n```python\nd = 1\n```"))
    with stage.chat(NO_COLOR="1") as terminal:
        terminal.wait("/help")
        terminal.enter("begin")
        terminal.wait("d = 1", "tokens in")
        found = re.findall(rb"\x1b\[([0-9;]*)m", terminal.raw)
        codes = {int(code) for one in found for code in one.split(b";") if code}
        assert not {code for code in codes if 30 <= code <= 49 or 90 <= code <= 107}


def test_a_dumb_terminal_gets_plain_lines(stage: ChatHarness) -> None:
    stage.script(calls("react.write", "Writing.", path="files/a.md", content="b"), answers(f"It is **so**. {HOSTILE}"))
    with stage.chat(TERM="dumb") as terminal:
        terminal.wait("\n>")
        terminal.type("begin\n")
        terminal.wait("It is **so**.", "→ react.write")
        terminal.type("\x04")
        assert terminal.wait_exit() == 0
        assert b"\x1b" not in terminal.raw


def test_piped_output_has_no_escapes_and_only_the_answer(stage: ChatHarness) -> None:
    stage.script(calls("react.write", "Writing.", path="files/a.md", content="b"), answers(f"It\tis. {HOSTILE}"))
    command = [sys.executable, "-m", "timeloom", "chat", "--data-dir", str(stage.data)]
    command += ["--model", f"script:{stage.data.parent / 'script.yaml'}"]
    environ = os.environ | {"TERM": "xterm-256color"}
    done = subprocess.run(command, input="begin\n", capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.startswith("It\tis. ␛]0;owned")
    assert done.stdout.count("\n") == 1
    assert "\x1b" not in done.stdout + done.stderr
