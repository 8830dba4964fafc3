"""Parameters: references are replaced by text, and write paths by those of the current turn."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.timeline import OLD_TURN, TURN, BlockTimeline, make_context
from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    Completion,
    Digest,
    Hidden,
    PlanRecorded,
    ResultContent,
    ResultDigest,
    ResultStatus,
    SourcesAdded,
    ToolCall,
    UserPrompt,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, PlanId
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.sources import SourceRow
from timeloom.tools.binding import MAX_BOUND_BYTES, MAX_DEPTH, MAX_REFS, BoundParameters, bind_parameters

C1, C2 = CallId("c1"), CallId("c2")
FILE = f"fi:{OLD_TURN}.files/a.md"
PROMPT = f"ar:{OLD_TURN}.user.prompt"


def content(text: str | None, path: str = FILE, call: CallId = C1, size: int | None = None) -> AnyBlock:
    digest = Digest(artifact_path=path, size_bytes=size)
    return ResultContent(tool_call_id=call, artifact_path=path, mime="text/markdown", text=text, digest=digest)


def bound(timeline: BlockTimeline, params: object, *write_params: str) -> BoundParameters:
    text = params if isinstance(params, str) else json.dumps(params)
    return asyncio.run(bind_parameters(text, write_params, make_context(timeline)))


def value(timeline: BlockTimeline, path: str) -> object:
    return json.loads(bound(timeline, {"x": f"ref:{path}"}).params)["x"]


def refused(timeline: BlockTimeline, params: object, *write_params: str) -> tuple[str, str]:
    with pytest.raises(CodedError) as error:
        bound(timeline, params, *write_params)
    return error.value.code, str(error.value)


NOT_VISIBLE = "protocol_violation.param_ref_not_visible"


# --- references ------------------------------------------------------------------------------------------------


def test_a_reference_becomes_the_text_at_its_path() -> None:
    assert value(BlockTimeline(UserPrompt(text="hello")), PROMPT) == "hello"


def test_references_are_found_wherever_they_stand() -> None:
    timeline = BlockTimeline(UserPrompt(text="hello"), content("# A"))
    params = {"a": [f"ref:{PROMPT}", {"b": f"ref:{FILE}", "c": 1}], "d": f"x ref:{PROMPT}", "e": None}
    expected = {"a": ["hello", {"b": "# A", "c": 1}], "d": f"x ref:{PROMPT}", "e": None}
    assert json.loads(bound(timeline, params).params) == expected


def test_parameters_without_one_reach_the_tool_letter_for_letter() -> None:
    params = '{ "n": 1.50, "big": 123456789012345678901234567890, "list": [1, {"a": "b"}] }'
    assert bound(BlockTimeline(), params) == BoundParameters(params)


def test_what_did_not_change_is_not_written_anew() -> None:
    timeline = BlockTimeline(UserPrompt(text="hello"))
    after = bound(timeline, f'{{"n": 1.50, "x": "ref:{PROMPT}"}}').params
    assert after == '{"n":1.50,"x":"hello"}'


@pytest.mark.parametrize("text", ["ref:", "ref:see above", "ref: the manual", "ref:http://x", "ref:fi" + "x" * 5000])
def test_prose_that_begins_like_a_reference_is_text(text: str) -> None:
    assert json.loads(bound(BlockTimeline(), {"x": text}).params)["x"] == text


def test_what_a_reference_brings_in_is_not_searched_again() -> None:
    timeline = BlockTimeline(UserPrompt(text=f"ref:{PROMPT}"))
    assert value(timeline, PROMPT) == f"ref:{PROMPT}"


@pytest.mark.parametrize("path", [FILE, "so:sources_pool[7]", "fi:nonsense", "ar:plan.latest:p", "sk:guide"])
def test_what_is_not_there_is_refused_by_name(path: str) -> None:
    code, message = refused(BlockTimeline(), {"deep": [{"x": f"ref:{path}"}]})
    assert code == NOT_VISIBLE
    assert message.startswith("the parameter `deep.0.x`: ")


def test_what_was_hidden_is_refused_until_it_is_read_again() -> None:
    timeline = BlockTimeline(content("# A, whole"), Hidden(target=FILE, replacement="a file"))
    code, message = refused(timeline, {"x": f"ref:{FILE}"})
    assert code == NOT_VISIBLE
    assert "react.read" in message
    timeline.append(ToolCall(tool_id="react.read", tool_call_id=C2), content("1 # A", call=C2))
    assert value(timeline, FILE) == "# A, whole"


def test_the_newest_version_of_a_file_is_meant() -> None:
    timeline = BlockTimeline(content("old"), content("new", call=C2))
    assert value(timeline, FILE) == "new"


def test_a_message_that_was_read_again_is_meant_as_it_was_written() -> None:
    timeline = BlockTimeline(UserPrompt(text="a\nb"), ToolCall(tool_id="react.read", tool_call_id=C1))
    timeline.append(content("1 a", path=PROMPT))
    assert value(timeline, PROMPT) == "a\nb"


def test_what_only_a_read_has_shown_is_meant_as_it_was_shown() -> None:
    timeline = BlockTimeline(ToolCall(tool_id="react.read", tool_call_id=C1), content("a skill", path="sk:guide"))
    assert value(timeline, "sk:guide") == "a skill"


def test_the_bare_path_of_an_answer_means_the_newest() -> None:
    timeline = BlockTimeline(Completion(text="first", n=1), Completion(text="second", n=2))
    assert value(timeline, f"ar:{OLD_TURN}.assistant.completion") == "second"
    assert value(timeline, f"ar:{OLD_TURN}.assistant.completion.1") == "first"


def test_a_result_is_meant_by_its_content_or_its_status() -> None:
    result = f"tc:{OLD_TURN}.c1.result"
    digest = ResultDigest(tool_call_id=C1, digest=Digest(artifact_path=result))
    assert value(BlockTimeline(digest, content("[1]", path=result)), result) == "[1]"
    assert value(BlockTimeline(ResultStatus(tool_call_id=C1, text="report"), digest), result) == "report"
    code, message = refused(BlockTimeline(digest), {"x": f"ref:{result}"})
    assert (code, "metadata" in message) == ("tool_params_invalid", True)


def test_a_block_without_text_is_meant_by_its_json_form() -> None:
    plan = PlanSnapshot(plan_id=PlanId("plan_a"), steps=("look",), statuses=("done",))
    found = value(BlockTimeline(PlanRecorded(snapshot=plan)), "ar:plan.latest:plan_a")
    assert isinstance(found, str)
    assert json.loads(found)["steps"] == ["look"]


def test_stored_text_is_loaded() -> None:
    timeline = BlockTimeline()
    timeline.append(UserPrompt(text=timeline.store("größer".encode())))
    assert value(timeline, PROMPT) == "größer"


def test_bytes_are_refused() -> None:
    path = f"fi:{OLD_TURN}.user.attachments/menu.pdf"
    timeline = BlockTimeline(Attachment(artifact_path=path, mime="application/pdf", data=b"%PDF"))
    code, message = refused(timeline, {"x": f"ref:{path}"})
    assert (code, "application/pdf and not text" in message) == ("tool_params_invalid", True)


def test_a_file_of_which_the_timeline_keeps_a_part_is_refused() -> None:
    code, message = refused(BlockTimeline(content("the beginning", size=99_999)), {"x": f"ref:{FILE}"})
    assert (code, "keeps 13" in message) == ("tool_params_invalid", True)


def test_sources_are_meant_by_what_they_say() -> None:
    rows = (
        SourceRow(sid=1, title="Fares", url="https://f.example", text="short", content="the whole page"),
        SourceRow(sid=2, title="Note", text="by hand"),
        SourceRow(sid=3, source_type="file", title="A", artifact_path=FILE, physical_path="turn_1/files/a.md"),
        SourceRow(
            sid=4, source_type="file", text="gone", artifact_path="fi:turn_9.files/b", physical_path="turn_9/files/b"
        ),
    )
    timeline = BlockTimeline(content("# A"), SourcesAdded(rows=rows))
    assert value(timeline, "so:sources_pool[1]") == "the whole page"
    assert value(timeline, "so:sources_pool[2]") == "by hand"
    assert value(timeline, "so:sources_pool[3]") == "# A"
    assert value(timeline, "so:sources_pool[4]") == "gone"
    assert (
        value(timeline, "so:sources_pool[1-2]")
        == "[S:1] Fares https://f.example\nthe whole page\n\n[S:2] Note\nby hand"
    )


def test_references_are_bounded_in_number_and_size() -> None:
    blocks = [Completion(text="x", n=n) for n in range(1, MAX_REFS + 2)]
    refs = [f"ref:ar:{OLD_TURN}.assistant.completion.{n}" for n in range(1, MAX_REFS + 2)]
    timeline = BlockTimeline(*blocks)
    assert json.loads(bound(timeline, {"x": refs[1:] + refs[1:]}).params)["x"] == ["x"] * 2 * MAX_REFS
    assert refused(timeline, {"x": refs})[0] == "tool_params_invalid"
    large = BlockTimeline(UserPrompt(text="x" * (MAX_BOUND_BYTES // 2 + 1)))
    assert len(bound(large, {"x": f"ref:{PROMPT}"}).params) > MAX_BOUND_BYTES // 2
    assert "bring in at most" in refused(large, {"x": [f"ref:{PROMPT}"] * 2})[1]
    assert (
        "too many for a reference"
        in refused(BlockTimeline(UserPrompt(text="x" * (MAX_BOUND_BYTES + 1))), {"x": f"ref:{PROMPT}"})[1]
    )


def test_parameters_are_bounded_in_depth() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert "nests deeper" in refused(BlockTimeline(), f'{{"x": [{deep}]}}')[1]
    assert bound(BlockTimeline(), f'{{"x": {deep[1:-1]}}}')
    far = "[" * 100_000 + "]" * 100_000
    assert refused(BlockTimeline(), f'{{"x": {far}}}')[0] == "tool_params_invalid"


@pytest.mark.parametrize("text", ["[]", "", "{", '{"a": 1e999}', '{"a":"\\ud800"}', "nul\0"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    assert refused(BlockTimeline(), text)[0] == "tool_params_invalid"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9) | st.just(f"ref:{PROMPT}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=4))
def test_binding_replaces_references_and_nothing_else(params: dict[str, object]) -> None:
    after = bound(BlockTimeline(UserPrompt(text="hello")), params)
    assert json.loads(after.params) == json.loads(json.dumps(params).replace(f"ref:{PROMPT}", "hello"))
    assert after.notices == ()


# --- paths that are written ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "meant", "moved"),
    [
        ("report.md", f"{TURN}/files/report.md", False),
        ("outputs/a/b.csv", f"{TURN}/outputs/a/b.csv", False),
        (f"fi:{TURN}.files/a.md", f"{TURN}/files/a.md", False),
        (f"{OLD_TURN}/files/a.md", f"{TURN}/files/a.md", True),
        (f"fi:{OLD_TURN}.outputs/a.md", f"{TURN}/outputs/a.md", True),
    ],
)
def test_a_written_path_lies_in_the_current_turn(path: str, meant: str, moved: bool) -> None:
    after = bound(BlockTimeline(), {"path": path, "other": path}, "path")
    assert json.loads(after.params) == {"path": meant, "other": path}
    assert [notice.code for notice in after.notices] == ["protocol_violation.path_rewritten"] * moved
    assert all(meant in notice.text for notice in after.notices)


def test_written_paths_are_found_inside_lists_and_maps() -> None:
    params = {"files": [{"path": "a", "name": "a"}, {"path": "b"}], "by": {"x": "c"}, "path": "d"}
    after = json.loads(bound(BlockTimeline(), params, "files.*.path", "by.*").params)
    assert after["files"] == [{"path": f"{TURN}/files/a", "name": "a"}, {"path": f"{TURN}/files/b"}]
    assert (after["by"], after["path"]) == ({"x": f"{TURN}/files/c"}, "d")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../../etc/passwd", "path_escapes_root"),
        ("/etc/passwd", "path_escapes_root"),
        (f"fi:{OLD_TURN}.user.attachments/a.pdf", "path_read_only"),
        ("ar:turn_1.user.prompt", "path_not_a_file"),
        ("", "path_malformed"),
    ],
)
def test_a_path_that_tools_do_not_write_is_refused_by_name(path: str, code: str) -> None:
    got, message = refused(BlockTimeline(), {"files": [{"path": path}]}, "files.*.path")
    assert got == code
    assert message.startswith("the parameter `files.0.path`")
    assert "passwd" not in message


def test_a_written_path_that_is_no_text_is_left_to_the_tool() -> None:
    assert bound(BlockTimeline(), '{"path": 3}', "path") == BoundParameters('{"path": 3}')
