"""Block text of edition 2: the agent's decisions as channels, results between two lines, and every path once."""

import json

import pytest
from hypothesis import given
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    ChannelText,
    Completion,
    Digest,
    Followup,
    Gate,
    ModelAnswered,
    Notes,
    Notice,
    PlanRecorded,
    RangeSummary,
    ReactCompletion,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    Shown,
    Steer,
    Thinking,
    ToolCall,
    ToolCode,
    ToolError,
    ToolTraits,
    TurnEnded,
    TurnStarted,
    UserPrompt,
    WorkingSummary,
)
from timeloom.core.blocks.block import ERASED
from timeloom.core.ids import CallId, MessageId, PlanId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.plans.snapshot import PlanSnapshot
from timeloom.core.render.entry_text import MAX_WORDS_CHARS, SILENT_TYPES, EntryText, needed_payloads
from timeloom.core.render.v2.entries.call_text import MAX_PARAM_CHARS
from timeloom.core.render.v2.entries.channel_text import MAX_CODE_CHARS
from timeloom.core.render.v2.entries.plan_text import step_line
from timeloom.core.render.v2.renderer import V2_RENDERER
from timeloom.core.timeline import Draft, Entry, to_entry
from timeloom.core.view.views import fold
from timeloom.testing.conversations import AnyPayload
from timeloom.testing.strategies import blocks

TURN, CALL, MESSAGE = TurnId("turn_1"), CallId("c1"), MessageId("m1")
TS = "2026-02-09T02:14:32.676425Z"
RESULT, FILE = "tc:turn_1.c1.result", "fi:turn_1.files/a.md"


def shown(block: AnyBlock, tool_id: str = "react.read", traits: ToolTraits | None = None) -> EntryText:
    """The text of the block after a turn and a call have begun."""
    begun = (TurnStarted(n=1), ToolCall(tool_id=tool_id, tool_call_id=CALL, traits=traits), block)
    entries = [to_entry(Draft(TURN, TS, one), seq) for seq, one in enumerate(begun, 1)]
    return V2_RENDERER.entry_text(entries[-1], fold(entries), AnyPayload())


def text(block: AnyBlock, tool_id: str = "react.read", traits: ToolTraits | None = None) -> str:
    return shown(block, tool_id, traits).text


def content(**of: object) -> ResultContent:
    return replace(ResultContent(tool_call_id=CALL, artifact_path=FILE, mime="text/markdown"), **of)


def status(said: object, **of: object) -> ResultStatus:
    made = said if isinstance(said, str) else json.dumps(said)
    return replace(ResultStatus(tool_call_id=CALL, text=made, mime="application/json"), **of)


def call(tool_id: str = "react.write", **params: object) -> ToolCall:
    return ToolCall(tool_id=tool_id, tool_call_id=CALL, params=json.dumps(params))


@given(blocks)
def test_every_block_renders_alike_each_time_and_ends_its_line(block: AnyBlock) -> None:
    entry = Entry(turn_id=TURN, ts=TS, block=block, seq=1)
    one, two = (V2_RENDERER.entry_text(entry, fold([entry]), AnyPayload()) for _ in range(2))
    assert one == two
    assert one.is_empty == (one == EntryText())
    assert not one.text or one.text.endswith("\n")
    if block.type_name in SILENT_TYPES:
        assert one.is_empty
    payloads = dict.fromkeys(needed_payloads(entry), b"stored")
    assert V2_RENDERER.entry_text(entry, fold([entry]), payloads).text is not None


def test_a_decision_is_shown_as_the_channels_in_which_it_is_written() -> None:
    assert text(Thinking(round=1, text="Look first.")) == "<channel:thinking>Look first.</channel:thinking>\n"
    assert text(Thinking(round=1, text="a\nb")) == "<channel:thinking>\na\nb\n</channel:thinking>\n"
    assert text(Notes(tool_call_id=CALL, text="Looking.")) == "<channel:notes>Looking.</channel:notes>\n"
    assert text(call("web.search", q="x")) == (
        '<channel:action>{"action":"call_tool","tool_call":{"tool_id":"web.search","params":{"q": "x"}}}'
        "</channel:action>\n"
    ).replace('"q": "x"', '"q":"x"')
    assert text(ToolCode(tool_call_id=CALL, text="print(1)\n")) == "<channel:code>\nprint(1)\n</channel:code>\n"


def test_empty_fields_are_left_out() -> None:
    assert text(call("x.y")) == (
        '<channel:action>{"action":"call_tool","tool_call":{"tool_id":"x.y"}}</channel:action>\n'
    )
    assert text(Completion(text="")) == '<channel:action>{"action":"complete"}</channel:action>\n\n'
    for silent in (
        Thinking(round=1, text=" \n"),
        Notes(tool_call_id=CALL, text=" \n"),
        ReactCompletion(text=""),
        RoundStarted(round=3),
        TurnEnded(reason="completed"),
        Gate(policy="p", verdict="allow"),
    ):
        assert text(silent) == ""


def test_an_answer_is_an_action_and_a_channel() -> None:
    answer = Completion(text="At nine [[S:1]].\n", suggested_followups=("And back?",))
    assert text(answer) == (
        '<channel:action>{"action":"complete","suggested_followups":["And back?"]}</channel:action>\n'
        "<channel:final_answer>\nAt nine [[S:1]].\n</channel:final_answer>\n\n"
    )
    assert text(Completion(text="Nine.")) == "<channel:final_answer>\nNine.\n</channel:final_answer>\n\n"
    assert text(ReactCompletion(text="done")) == "<channel:final_answer>\ndone\n</channel:final_answer>\n\n"
    assert text(WorkingSummary(text="Goal: x")) == "<channel:summary>\nGoal: x\n</channel:summary>\n\n"


def test_turns_and_messages_have_their_time_and_no_path_that_follows_from_them() -> None:
    assert text(TurnStarted(n=1)) == "[TURN t1] 2026-02-09 02:14\n"
    assert text(UserPrompt(text="Which ferry?")) == "[USER]\nWhich ferry?\n\n"
    assert text(TurnEnded(reason="stopped", text="enough")) == "[TURN END] stopped: enough\n"
    sent = "2026-02-09T02:14:30Z"
    assert text(Followup(message_id=MESSAGE, text="and?", started_ts=sent)) == (
        "[USER FOLLOWUP ar:t1.external.followup.m1] 2026-02-09 02:14:30\nand?\n\n"
    )
    assert text(Steer(message_id=MESSAGE, started_ts="now")) == (
        "[USER STEER ar:t1.external.steer.m1] 2026-02-09 02:14:32\n(stop)\n\n"
    )


def test_a_result_stands_between_two_lines_with_its_alias() -> None:
    assert text(content(text="a\n[b]\n", artifact_path=RESULT)) == "[t1.1]\na\n~[b]\n[/t1.1]\n"
    assert text(status("sent", mime="text/plain")) == "[t1.1]\nsent\n[/t1.1]\n"
    assert text(content(text="a\nb\n"), "react.write") == "[t1.1 fi:t1/a.md]\na\nb\n[/t1.1]\n"
    assert text(content(text="a\nb\n")) == "[t1.1 fi:t1/a.md]\n1| a\n2| b\n[/t1.1]\n"
    numbering = ToolTraits(numbers_lines=True)
    assert text(content(text="a\nb\n"), "notes.open", numbering) == "[t1.1 fi:t1/a.md]\n1| a\n2| b\n[/t1.1]\n"


def test_a_result_without_text_is_one_line() -> None:
    assert text(status('{"ok":true}')) == "[t1.1 ok]\n"
    assert text(status("", mime="text/plain")) == "[t1.1 ok]\n"
    assert text(content(text="")) == "[t1.1 fi:t1/a.md]\n[/t1.1]\n"


def test_a_failure_says_code_and_message_once() -> None:
    error = ToolError("quota", "no more", "exec", {"left": 0})
    alone = json.dumps({"error": {"code": "quota", "message": "no more"}}, separators=(",", ":"))
    assert text(status(alone, error=ToolError("quota", "no more"))) == "[t1.1 failed] quota: no more\n"
    assert text(status("half", mime="text/plain", error=error)) == (
        '[t1.1 failed] quota: no more (in exec) {"left":0}\nhalf\n[/t1.1]\n'
    )
    failed = Digest(artifact_path=FILE, error=ToolError("x", "full"))
    assert text(ResultDigest(tool_call_id=CALL, digest=failed)) == "[t1.1 failed fi:t1/a.md] x: full\n"
    assert text(status("", mime="text/plain", error=error)).startswith("[t1.1 failed] quota: no more")
    long = ToolError("exit_1", "no such file: a.txt")
    repeated = text(status("no such file: a.txt\nusage: cat", mime="text/plain", error=long))
    assert repeated == "[t1.1 failed] exit_1\nno such file: a.txt\nusage: cat\n[/t1.1]\n"
    noticed = Notice(code="exit_1", text="no such file: a.txt", tool_call_id=CALL)
    assert text(noticed) == "[NOTICE t1.1] exit_1: no such file: a.txt\n"
    assert text(replace(noticed, in_result=True)) == ""


def test_metadata_is_shown_only_where_no_content_shows_it() -> None:
    plain = Digest(artifact_path=FILE, physical_path="turn_1/files/a.md", mime="text/plain", size_bytes=9)
    assert text(ResultDigest(tool_call_id=CALL, digest=plain)) == ""
    assert text(ResultDigest(tool_call_id=CALL, digest=replace(plain, write_warning="small"))) == (
        "[t1.1 warning] small\n"
    )
    of_call = replace(plain, artifact_path=RESULT)
    assert text(ResultDigest(tool_call_id=CALL, digest=of_call)) == "[t1.1 ok]\n"
    assert text(ResultDigest(tool_call_id=CALL, digest=replace(of_call, tokens=3))) == ""


def test_previews_keep_their_recorded_text() -> None:
    preview = Shown("preview", 9, "[PREVIEW] 1 of 9\n| l\n[READ] more")
    stored = ref_of(b"long")
    for block in (content(text=stored, shown=preview, artifact_path=RESULT), status("x", text=stored, shown=preview)):
        assert text(block) == "[t1.1]\n[PREVIEW] 1 of 9\n| l\n[READ] more\n[/t1.1]\n"
    assert "[PREVIEW]" in text(content(text="word " * 20_000))
    assert text(content(shown=Shown("stub", 0, "[READ] a sheet"))) == ("[t1.1 fi:t1/a.md]\n[READ] a sheet\n[/t1.1]\n")


def test_pictures_are_attached_and_programs_named() -> None:
    png = shown(content(mime="image/png; x=y", data=b"png", artifact_path="fi:turn_1.files/a.png"))
    assert (png.text, png.data, png.mime) == ("[t1.1 fi:t1/a.png]\n", b"png", "image/png")
    assert png.tokens > 1600
    assert "not shown: application/x-exe, 2 bytes" in text(content(mime="application/x-exe", data=b"MZ"))
    sheet = Digest(artifact_path=FILE, size_bytes=15)
    assert "not shown: text/markdown, 15 bytes" in text(content(digest=sheet))
    assert "not shown: text/markdown; use code" in text(content())


def test_attachments_are_described_in_one_line_and_shown_if_recorded_so() -> None:
    meta = AttachmentMeta(digest=Digest(artifact_path=FILE, mime="text/plain", size_bytes=3), summary="a list")
    assert text(meta) == "[USER ATTACHMENT fi:t1/a.md] text/plain, 3 bytes: a list\n"
    infected = replace(
        meta, digest=Digest(artifact_path=FILE, mime="x/y", error=ToolError("x", "infected")), summary=""
    )
    assert text(infected) == "[USER ATTACHMENT fi:t1/a.md] x/y, error: infected\n"
    pdf = shown(Attachment(artifact_path=FILE, mime="application/pdf", data=ref_of(b"pdf")))
    assert (pdf.text, pdf.data) == ("", ref_of(b"pdf"))
    assert text(Attachment(artifact_path=FILE, mime="application/zip", data=b"zip")).startswith(
        "[fi:t1/a.md]\n[READ] not shown: application/zip, 3 bytes"
    )
    assert text(Attachment(artifact_path=FILE, mime="text/plain", text="a\nb")) == ""
    assert text(Attachment(artifact_path=FILE, mime="text/plain", shown=Shown("whole"))) == ""
    whole = Attachment(artifact_path=FILE, mime="text/plain", text="a\nb", shown=Shown("whole"))
    assert text(whole) == "[fi:t1/a.md]\n1| a\n2| b\n[/fi:t1/a.md]\n"


def test_paths_in_parameters_are_aliases() -> None:
    shown_call = text(
        call("react.read", paths=["fi:turn_1.files/a.md", "fi:turn_9.files/b.md", "turn_1/files/c.md", "turn_1"])
    )
    assert '"paths":["fi:t1/a.md","fi:turn_9.files/b.md","t1/files/c.md","turn_1"]' in shown_call
    assert '"path":"fi:t1/"' in text(call("react.pull", path="fi:turn_1.files/"))
    assert '"content":"ref:fi:t1/a.md"' in text(call("x.y", content="ref:fi:turn_1.files/a.md"))
    long = "fi:turn_1.files/" + "x" * 2_000
    assert "fi:turn_1.files/x" in text(call("x.y", note=long))


def test_parameters_without_paths_are_shown_as_the_model_wrote_them() -> None:
    block = ToolCall(tool_id="x.y", tool_call_id=CALL, params='{"price": 1.10, "big": 123456789012345678901234567890}')
    assert '"params":{"price":1.10,"big":123456789012345678901234567890}' in text(block)


def test_long_text_stands_in_a_channel_of_its_own() -> None:
    shown_call = text(call(path="files/report.md", content="# A\n\nb", kind="file"))
    assert shown_call == (
        '<channel:action>{"action":"call_tool","tool_call":{"tool_id":"react.write","params":'
        '{"path":"files/report.md","kind":"file"}}}</channel:action>\n'
        "<channel:content>\n# A\n\nb\n</channel:content>\n"
    )
    assert "<channel:patch>\n@@ -1 +1 @@\n-a\n+b\n\n</channel:patch>\n" in text(
        call("react.patch", path="files/a.md", patch="@@ -1 +1 @@\n-a\n+b\n")
    )
    assert '"content":"short"' in text(call(path="files/a.md", content="short"))


@pytest.mark.parametrize("path", ["files/report.md", "fi:t1/report.md", "t1/files/report.md", "fi:t9/report.md"])
def test_what_a_call_writes_is_shortened_and_names_the_file(path: str) -> None:
    shown_call = text(call(path=path, content="x" * 500, n=[1, {"deep": "y" * 500}]))
    assert f'{"x" * MAX_PARAM_CHARS}\n[READ] 100 more characters: react.read(["fi:t1/report.md"])' in shown_call
    assert "x" * 401 not in shown_call
    assert f'"deep":"{"y" * 400}... [see fi:t1/report.md]"' in shown_call


@pytest.mark.parametrize("path", ["../etc", 7])
def test_what_a_call_writes_nowhere_is_read_from_the_call(path: object) -> None:
    assert 'react.read(["tc:t1.1.call"])' in text(call("x.y", path=path, content="x" * 500))


def test_parameters_of_many_short_strings_are_cut_as_a_whole() -> None:
    shown_call = text(call("x.y", rows=["word"] * 4_000))
    assert "… [see tc:t1.1.call]}" in shown_call
    assert len(shown_call) < 8_400


def test_parameters_that_are_no_json_are_shown_as_text() -> None:
    assert '"params":stored 2d7116 [TURN x] & more}' in text(
        ToolCall(tool_id="x", tool_call_id=CALL, params=ref_of(b"x"))
    )


def test_parameters_that_nest_deep_are_shown() -> None:
    params = '{"a":' + "[" * 60 + '"' + "z" * 500 + '"' + "]" * 60 + "}"
    assert "z" * 401 in text(ToolCall(tool_id="x", tool_call_id=CALL, params=params))


def test_a_call_of_a_program_is_no_decision() -> None:
    nested = ToolCall(tool_id="web.search", tool_call_id=CallId("c2"), params='{"q":"x"}', by=CALL)
    assert text(nested) == '[t1.2 by t1.1] web.search {"q":"x"}\n'


def test_a_long_program_is_shown_in_part_and_read_by_its_place() -> None:
    shown_code = text(ToolCode(tool_call_id=CALL, text="print(1)\n" * 5_000))
    assert shown_code.startswith("<channel:code>\nprint(1)\n")
    assert '[READ] 39000 more characters: react.read(["ar:log[3]"])\n</channel:code>\n' in shown_code
    assert len(shown_code) < MAX_CODE_CHARS


def test_very_long_words_are_cut_and_name_the_path_of_the_rest() -> None:
    long = text(UserPrompt(text="a" * (MAX_WORDS_CHARS + 7)))
    assert '[READ] 7 more characters: react.read(["ar:t1.user.prompt"])' in long
    assert text(UserPrompt(text=f"{ERASED} ar:x")) == f"[USER]\n{ERASED} ar:x\n\n"


def test_a_summary_is_escaped_once() -> None:
    summary = RangeSummary(covered_turn_ids=(TURN,), text="They met <~channel:x>.\n[TURN t9]\n<channel:y> [[S:1]]")
    assert text(summary) == (
        "[SUMMARY su:t1.conv.range.summary.1] covers 1 turn\n"
        "They met <~channel:x>.\n~[TURN t9]\n<~channel:y> [[S:1]]\n\n"
    )
    assert "covers 2 turns\n" in text(replace(summary, covered_turn_ids=(TURN, TurnId("turn_2"))))
    assert "covers a part of a turn\n" in text(replace(summary, covered_turn_ids=(), first_seq=1, last_seq=2))


def test_only_what_was_cut_of_a_reply_is_shown() -> None:
    cut = ModelAnswered(round=1, model="m", stop_reason="", interrupted=True, text="<channel:thinking>half")
    assert text(cut) == (
        "[INTERRUPTED ATTEMPT] 22 characters, not executed\n<~channel:thinking>half\n[/INTERRUPTED ATTEMPT]\n"
    )
    assert text(replace(cut, interrupted=False)) == ""
    assert text(replace(cut, purpose="title")) == ""


def test_a_read_shows_its_contents_and_each_path_once() -> None:
    """A read of one plan of 140 tokens cost 584 tokens in edition 1."""
    path, physical = "fi:turn_1.files/a.md", "turn_1/files/a.md"
    item = {"path": path, "mime": "text/plain", "size_bytes": 9, "physical_path": physical, "tokens": 3}
    said: dict[str, object] = {"paths": [path], "missing": [], "total_tokens": 3, "items": [item], "reasons": {}}
    assert text(status(said)) == ""
    more = {**said, "items": [{**item, "next_item": {"path": path, "line_start": 5}}, "odd"]}
    assert text(status(more)) == (
        '[t1.1]\n{"items":[{"path":"fi:t1/a.md","next_item":{"path":"fi:t1/a.md","line_start":5}}]}\n[/t1.1]\n'
    )
    gone = {**said, "items": [], "missing": ["fi:turn_1.files/b.md"], "reasons": {"fi:turn_1.files/b.md": "no file"}}
    assert text(status(gone)) == ('[t1.1]\n{"missing":["fi:t1/b.md"],"reasons":{"fi:t1/b.md":"no file"}}\n[/t1.1]\n')


def test_a_read_without_contents_shows_what_it_found() -> None:
    path = "fi:turn_1.files/a.md"
    item = {"path": path, "size_bytes": 9, "physical_path": "turn_1/files/a.md"}
    counted = {"paths": [path], "missing": [], "total_tokens": 0, "items": [item]}
    assert text(status(counted)) == '[t1.1]\n{"items":[{"path":"fi:t1/a.md","size_bytes":9}]}\n[/t1.1]\n'
    visible = {**counted, "exists_in_visible_context": [path]}
    assert text(status(visible)) == '[t1.1]\n{"exists_in_visible_context":["fi:t1/a.md"]}\n[/t1.1]\n'
    assert text(status({"paths": []})) == "[t1.1 ok]\n"
    assert text(status({"paths": [], "total_tokens": 3, "items": None})) == ""


def test_a_status_of_the_runtime_has_no_empty_fields_and_of_other_tools_all() -> None:
    found: dict[str, object] = {"files": [], "searched_files": 0, "complete": True, "notes": None, "deep": [[{}]]}
    assert text(status(found), "react.rg") == ('[t1.1]\n{"searched_files":0,"complete":true,"deep":[[{}]]}\n[/t1.1]\n')
    assert '"files": []' in text(status(found), "shop.find")
    assert text(status("no json"), "react.rg") == "[t1.1]\nno json\n[/t1.1]\n"
    assert text(status({"changed": []}), "react.plan") == "[t1.1 ok]\n"
    assert text(status({"changed": [{"plan_id": "p1"}], "current": "p1"}), "react.plan") == "[t1.1 ok]\n"


def test_plans_show_their_steps_once_and_then_only_signs() -> None:
    plan = PlanSnapshot(plan_id=PlanId("p1"), steps=("one", "two"), statuses=("done", "pending"))
    assert text(PlanRecorded(snapshot=plan)) == "[PLAN p1]\n✓ 1) one\n□ 2) two\n"
    assert text(PlanRecorded(snapshot=plan, change="activate")) == "[PLAN p1] activate\n✓ 1) one\n□ 2) two\n"
    assert text(PlanRecorded(snapshot=plan, change="progress")) == "[PLAN] ✓1 □2\n"
    closed = replace(plan, closed_ts=TS)
    assert text(PlanRecorded(snapshot=closed, change="close")).startswith("[PLAN p1] closed\n")


def test_white_space_of_a_verbatim_step_is_shown_escaped() -> None:
    plan = PlanSnapshot(plan_id=PlanId("p1"), steps=("a\u2028b", "c d"), statuses=("pending",) * 2, verbatim=True)
    assert text(PlanRecorded(snapshot=plan)) == '[PLAN p1]\n□ 1) "a\\u2028b"\n□ 2) c d\n'
    assert step_line(plan, "e\n" * 400, 9) == '"e\\ne\\ne\\ne\\n…"'


def test_what_a_prompt_cannot_show_is_one_line_and_an_empty_result_says_so() -> None:
    assert text(content(artifact_path="tc:turn_1.c1.result", text="")) == "[t1.1 empty]\n"
    shown = text(content(mime="application/zip", text=None))
    assert shown.startswith("[t1.1 fi:t1/a.md] not shown: application/zip; use code to read it")
    assert shown.count("\n") == 1


def test_an_error_is_not_repeated_before_a_text_that_says_it() -> None:
    error = ToolError("missing_artifact", "Missing: t1/files/a", "", {"missing": "t1/files/a", "exit_code": 1})
    shown = text(status("Runtime error: Missing: t1/files/a", mime="text/markdown", error=error))
    assert shown == '[t1.1 failed] missing_artifact {"exit_code":1}\nRuntime error: Missing: t1/files/a\n[/t1.1]\n'


def test_a_gate_is_shown_only_if_nothing_after_it_says_the_same() -> None:
    assert text(Gate(policy="p", verdict="ask", text="really?", tool_call_id=CALL)) == ""
    assert text(Gate(policy="p", verdict="refuse", text="never", tool_call_id=CALL)) == ""
    assert text(Gate(policy="p", verdict="allow", text="")) == ""
    assert (
        text(Gate(policy="budget", verdict="refuse", text="no money is left"))
        == "[GATE] budget: refuse no money is left\n"
    )


def test_a_text_on_a_declared_channel_stands_in_its_channel() -> None:
    def chart(words: str) -> ChannelText:
        return ChannelText(channel="chart", mime="application/json", text=words, round=1)

    assert text(chart('{"a": 1}')) == '<channel:chart>\n{"a": 1}\n</channel:chart>\n'
    assert text(chart("[1]\n</channel:chart>")) == "<channel:chart>\n~[1]\n</~channel:chart>\n</channel:chart>\n"
    assert text(chart("[ERASED]")) == "<channel:chart>\n[ERASED]\n</channel:chart>\n"
    shown = text(chart("x" * 30_000))
    assert shown.count("x") == 6_000
    assert '[READ] 24000 more characters: react.read(["ar:t1.channel.chart.1"])' in shown
