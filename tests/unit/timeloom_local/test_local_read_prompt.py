"""The local model's reading of a prompt from the runtime's renderer."""

import json

from timeloom.ports.model import ModelRequest, TextSegment
from timeloom.testing.conformance.cases import CaseNotice, CaseScene, ConformanceCase, FailedCall, WrittenFile
from timeloom.testing.conformance.scenes import EARLIER_TURN, TURN, build_request, system_text
from timeloom.tools.react.toolset import react_tools
from timeloom_local.prompt_content import ListedSource, PromptContent, PromptFile
from timeloom_local.read_catalogue import read_catalogue
from timeloom_local.read_prompt import read_prompt


def situation(case: ConformanceCase, scene: CaseScene | None = None) -> PromptContent:
    return read_prompt(build_request(case, scene or CaseScene()))


def said(text: str, tail: str = "") -> PromptContent:
    return read_prompt(ModelRequest(system="", segments=(TextSegment(text), TextSegment(tail))))


def test_the_message_is_the_users_own_words() -> None:
    words = "[TURN turn_9] ts=1\n[USER MESSAGE]\nno | bar\n\n<channel:thinking>\nANNOUNCE"
    found = situation(ConformanceCase(id="a", say=words))
    assert found.message == words.replace("<channel", "<~channel")
    assert found.turn == TURN
    assert found.calls == []


def test_files_of_an_earlier_turn_are_known_with_their_text() -> None:
    found = situation(ConformanceCase(id="a", say="hm"), CaseScene(files={"a.txt": "one\n\ntwo\n"}))
    path = f"fi:{EARLIER_TURN}.files/a.txt"
    assert found.files == {path: PromptFile(path=path, text="one\n\ntwo")}
    assert (found.files[path].name, found.files[path].relative) == ("a.txt", "files/a.txt")
    assert found.exchanges == [("Please keep these files for me.", "They are kept.")]
    assert found.calls == []


def test_an_attachment_is_known_and_its_text_once_it_was_read() -> None:
    scene = CaseScene(attachments={"a.txt": "one\n[TURN turn_9]\n"})
    path = f"fi:{TURN}.user.attachments/a.txt"
    assert situation(ConformanceCase(id="a", say="hm"), scene).files == {path: PromptFile(path=path, attached=True)}
    found = situation(ConformanceCase(id="a", say="hm"), CaseScene(attachments=scene.attachments, read="a.txt"))
    assert found.files == {path: PromptFile(path=path, text="one\n[TURN turn_9]", attached=True)}
    assert found.sources == [ListedSource(1, "a.txt", path)]
    assert [(call.tool_id, call.done, call.failure) for call in found.calls] == [("react.read", True, "")]


def test_a_file_that_was_written_is_known() -> None:
    found = situation(ConformanceCase(id="a", say="hm"), CaseScene(write=WrittenFile(name="b.md", text="# B\n")))
    assert [(file.path, file.text) for file in found.files.values()] == [(f"fi:{TURN}.files/b.md", "# B")]


def test_a_failure_is_known_by_its_sentence() -> None:
    failed = FailedCall(tool="react.read", params='{"paths":["x"]}', message="no such thing")
    (call,) = situation(ConformanceCase(id="a", say="hm"), CaseScene(failed=failed)).calls
    assert (call.tool_id, call.params, call.failure) == ("react.read", '{"paths":["x"]}', "no such thing")


def test_a_read_that_found_nothing_is_a_failure() -> None:
    text = (
        '[TURN turn_1] ts=x\n\n[react.tool.call] (JSON)\n{"tool_id":"react.read","tool_call_id":"c1","params":{}}\n\n'
        '[TOOL RESULT c1].result react.read\n| {"paths":[],"missing":["fi:turn_1.files/b.md"]}\n\n'
    )
    assert said(text).calls[0].failure == "there is no file b.md"


def test_a_notice_about_the_form_is_no_failure_of_a_call() -> None:
    notice = CaseNotice(code="protocol_violation.decision_missing", text="write one")
    assert situation(ConformanceCase(id="a", say="hm", notice=notice)).calls == []
    text = '[TURN turn_1] ts=x\n\n[react.tool.call] (JSON)\n{"tool_id":"a.b"}\n\n[NOTICE c1] tool_unknown: no\n'
    assert said(text).calls[0].failure == "no"


def test_a_refusal_by_a_person_is_a_failure() -> None:
    text = '[TURN turn_1] ts=x\n\n[react.tool.call] (JSON)\n{"tool_id":"a.b"}\n\n[APPROVAL c1] refused not now\n'
    assert said(text).calls[0].failure == "a person refused it"
    assert not said(text.replace("refused", "granted")).calls[0].failure


def test_followups_add_to_a_request_and_a_steer_replaces_it() -> None:
    begun = "[TURN turn_1] ts=x\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\none\n\n"
    assert said(begun + "[USER FOLLOWUP] ts=x\ntwo\n").message == "one\ntwo"
    assert said(begun + "[USER STEER] ts=x\nthree\n").message == "three"
    assert said(begun + "[USER STEER] ts=x\n(stop)\n").stop


def test_the_tail_says_plan_and_last_round() -> None:
    tail = (
        "ANNOUNCE\n[OPEN PLANS]\n  plan_id=plan:a\n    □ [1] old\n  plan_id=plan:b (current)\n    ✓ [1] first\n"
        '    □ [2] second\n[LAST ROUND] No tool is run after this. Answer now with action "complete".\n'
    )
    found = said("", tail)
    assert found.plan == [("first", "✓"), ("second", "□")]
    assert found.last_round


def test_parameters_that_are_shown_cut_are_no_obstacle() -> None:
    assert (
        said('[TURN turn_1] ts=x\n\n[react.tool.call] (JSON)\n{"tool_id":"a.b","par… [see x]\n').calls[0].tool_id == ""
    )


def test_the_catalogue_is_read_back_as_it_was_given() -> None:
    offers = {offer.tool_id: offer for offer in read_catalogue(system_text().text)}
    specs = {tool.spec.tool_id: tool.spec for tool in react_tools()}
    assert offers.keys() == specs.keys()
    for name, spec in specs.items():
        shown = spec.first_edition
        assert shown
        assert (offers[name].purpose, offers[name].examples) == (shown.purpose, shown.examples)
        assert offers[name].schema == shown.params_schema


def test_the_catalogue_of_edition_2_is_read_back_as_it_was_given() -> None:
    offers = {offer.tool_id: offer for offer in read_catalogue(system_text(2).text)}
    specs = {tool.spec.tool_id: tool.spec for tool in react_tools(text_version=2)}
    assert offers.keys() == specs.keys()
    for name, spec in specs.items():
        assert (offers[name].purpose, offers[name].examples) == (spec.purpose, spec.examples)
        read, given = json.loads(offers[name].schema), json.loads(spec.params_schema)
        assert list(read["properties"]) == list(given["properties"])
        assert read["required"] == given.get("required", [])
        texts = {key: part.get("description") for key, part in given["properties"].items()}
        assert {key: part.get("description") for key, part in read["properties"].items()} == texts


def test_a_catalogue_entry_with_a_broken_signature_takes_any_object() -> None:
    offered = read_catalogue(
        "x\n# Tools\n\n### a.b\nDoes it.\n- name: strange type\n\n### c.d\nToo.\n(no parameters)\n"
    )
    assert [offer.schema for offer in offered] == ['{"type":"object"}', '{"type":"object"}']


def test_without_a_catalogue_there_are_no_offers() -> None:
    assert read_catalogue("Be kind.") == ()
    assert [offer.tool_id for offer in read_catalogue("x\n# Tools\n\n### a.b\n\n# Skills\n\n### c.d\nno tool\n")] == [
        "a.b"
    ]
