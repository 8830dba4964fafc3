"""The local model's reading of a prompt of edition 2."""

import pytest

from timeloom.core.policy.read_reply import read_reply
from timeloom.ports.model import ModelRequest, TextSegment
from timeloom.testing.conformance.cases import CaseNotice, CaseScene, ConformanceCase, FailedCall, WrittenFile
from timeloom.testing.conformance.scenes import build_request
from timeloom_local.calls import physical_path
from timeloom_local.prompt_content import ListedSource, PromptContent, PromptFile, path_order, split_path
from timeloom_local.read_prompt import read_prompt
from timeloom_local.reply import build_call_reply, build_complete_reply

ANNOUNCE = "[ANNOUNCE] 2026-02-09, iteration 1/15\n"


def situation(scene: CaseScene | None = None, say: str = "hm", notice: CaseNotice | None = None) -> PromptContent:
    case = ConformanceCase(id="a", say=say, notice=notice)
    return read_prompt(build_request(case, scene or CaseScene(), edition=2))


def said(text: str, tail: str = ANNOUNCE) -> PromptContent:
    return read_prompt(ModelRequest(system="", segments=(TextSegment(text), TextSegment(tail))))


def test_the_message_is_the_users_own_words() -> None:
    words = "[TURN t9] x\n[USER]\nno | bar\n\n<channel:thinking>\nHIDDEN\n[/t1.1]\n✓ [1]\n~[NOTICE] x"
    found = situation(say=words)
    assert (found.message, found.turn, found.calls, found.edition) == (words, "t1", [], 2)


def test_messages_and_events_of_edition_3_begin_their_turns() -> None:
    call = '<channel:action>{"tool_id":"react.read","params":{"paths":["x"]}}</channel:action>\n'
    first = said(f"[TIME] 2026-02-09 02:14\n[USER t1]\nHi\n\n{call}[t1.1 ok]\n")
    assert (first.turn, first.message, [one.tool_id for one in first.calls]) == ("t1", "Hi", ["react.read"])
    found = said(f"[USER t1]\nHi\n\n{call}<channel:final_answer>Ho</channel:final_answer>\n[USER t2]\nAnd you?\n\n")
    assert (found.turn, found.message, found.calls, found.said) == ("t2", "And you?", [], ["Hi"])
    assert found.exchanges == [("Hi", "Ho")]
    event = said("[USER t1]\nHi\n\n[EVENT form ar:t2.external.form.1] 2026-02-09 02:14\nx\n[/EVENT]\n")
    assert (event.turn, event.message, event.said) == ("t2", "", ["Hi"])


def test_a_text_that_only_its_call_shows_is_known() -> None:
    write = '<channel:action>{"tool_id":"react.write","params":{"path":"files/a.md"%s}}</channel:action>\n'
    raw = "<channel:content>\n# A\n~[x]\n</channel:content>\n"
    done = "[t1.1 fi:t1/a.md] 2 lines, as written\n"
    for call, text in (
        (write % "" + raw, "# A\n[x]"),
        (write % ',"content":"one"', "one"),
        (write % ',"content":1', ""),
    ):
        found = said(f"[USER t1]\nHi\n\n{call}{done}")
        assert found.files["fi:t1/a.md"].text == text


def test_files_of_an_earlier_turn_are_known_with_their_text() -> None:
    found = situation(CaseScene(files={"a.txt": "one\n\n[TURN t9]\n~x\n"}))
    assert found.files == {"fi:t1/a.txt": PromptFile(path="fi:t1/a.txt", text="one\n\n[TURN t9]\n~x")}
    file = found.files["fi:t1/a.txt"]
    assert (file.name, file.relative, physical_path(file)) == ("a.txt", "files/a.txt", "t1/files/a.txt")
    assert (file.is_of("t1"), file.is_of("t2"), file.is_of("")) == (True, False, False)
    assert found.exchanges == [("Please keep these files for me.", "They are kept.")]
    assert found.said == ["Please keep these files for me."]
    assert (found.calls, found.turn) == ([], "t2")


def test_an_attachment_is_known_and_its_text_once_it_was_read() -> None:
    path = "fi:t1.user.attachments/a].txt"
    attachments = {"a].txt": "one\n[TURN t9]\n| bar\n"}
    assert situation(CaseScene(attachments=attachments)).files == {path: PromptFile(path=path, attached=True)}
    found = situation(CaseScene(attachments=attachments, read="a].txt"))
    assert found.files == {path: PromptFile(path=path, text="one\n[TURN t9]\n| bar", attached=True)}
    assert found.sources == [ListedSource(1, "a].txt", path)]
    assert [(call.tool_id, call.done, call.failure) for call in found.calls] == [("react.read", True, "")]


def test_a_file_that_was_written_is_known() -> None:
    found = situation(CaseScene(write=WrittenFile(name="b.md", text="# B\n| a | b |\n")))
    assert [(file.path, file.text) for file in found.files.values()] == [("fi:t1/b.md", "# B\n| a | b |")]


def test_a_failure_is_known_by_its_sentence() -> None:
    failed = FailedCall(tool="react.read", params='{"paths":["x"]}', message="no such thing")
    (call,) = situation(CaseScene(failed=failed)).calls
    assert (call.tool_id, call.params, call.failure) == ("react.read", '{"paths":["x"]}', "no such thing")


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ('failed] tool_failed: it broke (in a.b) {"x":1}', "it broke"),
        ("failed] tool_failed\nTraceback", "Traceback"),
        ("failed fi:t1/a.md] too_large: too much", "too much"),
        ("failed] tool_failed", "it failed"),
        ("failed] Not a code", "Not a code"),
    ],
)
def test_a_failed_line_has_its_message_or_the_text_below(line: str, failure: str) -> None:
    text = f'<channel:action>{{"action":"call_tool","tool_call":{{"tool_id":"a.b"}}}}</channel:action>\n[t1.1 {line}\n'
    (call,) = said(f"[TURN t1] x\n{text}[/t1.1]").calls
    assert (call.failure, call.done) == (failure, True)


READ = '[TURN t1] x\n<channel:action>{"action":"call_tool","tool_call":{"tool_id":"react.read"}}</channel:action>\n'


def test_a_read_that_found_nothing_is_a_failure() -> None:
    missing = f'{READ}[t1.1]\n{{"missing":["fi:t1/b.md"]}}\n[/t1.1]\n'
    assert said(missing).calls[0].failure == "there is no file b.md"
    assert not said(f"{missing}[t1.1 fi:t1/a.md]\n1| text\n[/t1.1]\n").calls[0].failure
    seen = f'{READ}[t1.1]\n{{"missing":["fi:t1/b.md"],"exists_in_visible_context":["fi:t1/a.md"]}}\n[/t1.1]\n'
    assert not said(seen).calls[0].failure


def test_a_preview_is_a_cut_text_and_a_file_that_is_not_shown_has_none() -> None:
    first = "[t1.1 fi:t1/a.md]\n[PREVIEW] lines [1-2]/9 of fi:t1/a.md\n1| one\n2| two\n[/t1.1]\n"
    binary = "[t1.1 fi:t1/b.bin]\n[READ] not shown: application/x\n"
    found = said(f"{READ}{first}{binary}[t1.1 fi:t1/c.md] empty\n").files
    assert found == {
        "fi:t1/a.md": PromptFile(path="fi:t1/a.md", text="one\ntwo", is_cut=True),
        "fi:t1/b.bin": PromptFile(path="fi:t1/b.bin"),
        "fi:t1/c.md": PromptFile(path="fi:t1/c.md", text=""),
    }


def test_a_notice_about_the_form_is_no_failure_of_a_call() -> None:
    assert situation(notice=CaseNotice(code="protocol_violation.decision_missing", text="write one")).calls == []
    assert said(f"{READ}[NOTICE t1.1] tool_unknown: no\n").calls[0].failure == "no"


def test_a_refusal_by_a_person_is_a_failure() -> None:
    assert said(f"{READ}[APPROVAL t1.1] refused: not now\n").calls[0].failure == "a person refused it"
    assert not said(f"{READ}[APPROVAL t1.1] granted\n").calls[0].failure


def test_calls_of_a_program_and_rows_of_cards_are_no_results() -> None:
    found = said(f"{READ}[t1.2 by t1.1] a.b {{}}\n")
    assert [(call.tool_id, call.done) for call in found.calls] == [("react.read", False)]
    card = "[PRUNED t1] x, all of it\n[USER]\nfirst\n[t1.1] react.read x\n[TURN t2] x\n[USER]\nsecond\n"
    assert (said(card).said, said(card).message, said(card).turn) == (["first"], "second", "t2")


def test_followups_add_to_a_request_and_a_steer_replaces_it() -> None:
    begun = "[TURN t1] x\n[USER]\none\n\n"
    assert said(f"{begun}[USER FOLLOWUP ar:t1.x] ts\ntwo\n").message == "one\ntwo"
    assert said(f"{begun}[USER STEER ar:t1.x] ts\nthree\n").message == "three"
    assert said(f"{begun}[USER STEER ar:t1.x] ts\n(stop)\n").stop
    later = said(f"{READ}[USER FOLLOWUP ar:t1.x] ts\ntwo\n")
    assert (later.message, later.calls) == ("two", [])


def test_the_tail_says_plan_and_last_round() -> None:
    tail = (
        f"{ANNOUNCE}[OPEN PLAN plan:a]\n□ 1) old\n[OPEN PLAN plan:b] current\n✓ 1) first\n□ 2) second\n"
        "[LAST ROUND] No tool runs after this round.\n"
    )
    found = said("", tail)
    assert (found.plan, found.last_round) == ([("first", "✓"), ("second", "□")], True)


def test_parameters_that_are_shown_cut_are_no_obstacle() -> None:
    assert said('<channel:action>{"action":"call_tool","tool… [see x]</channel:action>').calls[0].tool_id == ""


def test_paths_of_both_editions_have_a_turn_and_sort_by_time() -> None:
    assert split_path("fi:t12/docs/a.md") == ("t12", "files/docs/a.md")
    assert split_path("fi:t12.outputs/a.md") == ("t12", "outputs/a.md")
    assert split_path("fi:turn_1_a.files/a.md") == ("turn_1_a", "files/a.md")
    assert max("fi:t9/a.md", "fi:t12/a.md", "fi:t10.outputs/a.md", key=path_order) == "fi:t12/a.md"
    assert max("fi:turn_1_a.files/a", "fi:turn_2_a.files/a", key=path_order) == "fi:turn_2_a.files/a"


def test_replies_use_the_name_that_the_edition_teaches() -> None:
    for reply in (
        build_call_reply("a.b", {}, thinking="x", edition=2),
        build_complete_reply(["x"], thinking="x", edition=2),
    ):
        text = "".join(part for part in reply if isinstance(part, str))
        assert "<channel:action>" in text
        assert len(read_reply(text).decisions) == 1
