"""Replies of edition 2 with raw channels: well-formed ones, slips with one reading, ambiguous ones and drafts."""

from typing import Final

from tests.harness.misformatted_replies import CONTEXT, PROGRAM, RAIN, THOUGHT, Form
from tests.harness.more_misformatted_replies import EXEC
from timeloom.core.policy.repair_reply import RepairContext, ToolForm
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision, Decision, ExitDecision

_TEXT: Final = '{"type":"string"}'
RAW_CONTEXT: Final = RepairContext(
    by_name={
        **CONTEXT.by_name,
        "react.write": ToolForm(
            "react.write",
            f'{{"properties":{{"path":{_TEXT},"channel":{_TEXT},"content":{_TEXT}}},"required":["path","content"]}}',
        ),
        "react.patch": ToolForm("react.patch", f'{{"properties":{{"path":{_TEXT},"patch":{_TEXT}}}}}'),
        "blog.post": ToolForm("blog.post", '{"properties":{"content":{"anyOf":[{"type":"string"},{"type":"null"}]}}}'),
        "box.put": ToolForm("box.put", '{"properties":{"content":{"type":"object"},"patch":true}}'),
    },
    edition=2,
)
"""Tools of which some take a text in a raw channel, in edition 2."""

COMPLETE: Final = '{"action":"complete"}'
WRITE: Final = '{"action":"call_tool","tool_call":{"tool_id":"react.write","params":{"path":"a.md"}}}'
PATCH: Final = WRITE.replace("react.write", "react.patch")
WEATHER: Final = '{"action":"call_tool","tool_call":{"tool_id":"weather.get","params":{"city":"Oslo"}}}'


def action(text: str, name: str = "action") -> str:
    return f"<channel:{name}>{text}</channel:{name}>\n"


def raw(name: str, text: str) -> str:
    ending = "\r\n" if text.endswith("\r") else "\n"
    return f"<channel:{name}>\n{text}{ending}</channel:{name}>\n"


def written(content: str, notes: str = "") -> CallToolDecision:
    params = f'{{"path":"a.md","content":"{content}"}}'
    return CallToolDecision("react.write", params, notes)


PATCHED: Final = CallToolDecision("react.patch", '{"path":"a.md","patch":"@@ -1 +1 @@"}')
ABC: Final = written("abc")
ANSWER: Final = raw("final_answer", "Rain.")
CONTENT: Final = raw("content", "abc")

VALID: Final[tuple[tuple[str, tuple[Decision, ...]], ...]] = (
    (ANSWER, (RAIN,)),
    (THOUGHT + ANSWER, (RAIN,)),
    (action(COMPLETE) + ANSWER, (RAIN,)),
    (action(COMPLETE, "ReactDecisionOutV2") + ANSWER, (RAIN,)),
    (THOUGHT + action(COMPLETE) + ANSWER + raw("summary", "It rained."), (RAIN,)),
    (action('{"action":"complete","final_answer":""}') + ANSWER, (RAIN,)),
    (action('{"action":"complete","final_answer":null}') + ANSWER, (RAIN,)),
    (action('{"action":"complete","final_answer":"Rain."}') + ANSWER, (RAIN,)),
    (action('{"action":"complete","final_answer":"Rain."}') + raw("final_answer", ""), (RAIN,)),
    (ANSWER + ANSWER, (RAIN,)),
    (action(COMPLETE) + ANSWER + ANSWER, (RAIN,)),
    (action('{"action":"exit"}') + ANSWER, (ExitDecision("Rain."),)),
    (raw("notes", "I look.") + ANSWER, (CompleteDecision("Rain.", notes="I look."),)),
    (raw("final_answer", '{"city":"Oslo"}'), (CompleteDecision('{"city":"Oslo"}'),)),
    (action(WRITE) + CONTENT, (ABC,)),
    (action(WRITE) + raw("content", ""), (written(""),)),
    (action(WRITE.replace('"a.md"', '"a.md","content":""')) + CONTENT, (ABC,)),
    (action(WRITE.replace('"a.md"', '"a.md","content":"abc"')) + CONTENT, (ABC,)),
    (action(WRITE) + raw("content", "```md\\nabc\\n```".replace("\\n", "\n")), (written("```md\\nabc\\n```"),)),
    (action(PATCH) + raw("patch", "@@ -1 +1 @@"), (PATCHED,)),
    (raw("notes", "I write.") + action(WRITE) + CONTENT, (written("abc", "I write."),)),
    (action(WRITE) + raw("notes", "I write.") + CONTENT, (written("abc", "I write."),)),
    (action(WRITE) + CONTENT + action(COMPLETE) + ANSWER, (ABC, RAIN)),
    (
        raw("notes", "One.") + action(WRITE) + CONTENT + raw("notes", "Two.") + action(PATCH) + raw("patch", "new"),
        (
            written("abc", "One."),
            CallToolDecision("react.patch", '{"path":"a.md","patch":"new"}', "Two."),
        ),
    ),
    (
        action(WRITE) + raw("notes", "One.") + CONTENT + action(PATCH) + raw("patch", "new") + raw("notes", "Two."),
        (
            written("abc", "One."),
            CallToolDecision("react.patch", '{"path":"a.md","patch":"new"}', "Two."),
        ),
    ),
    (
        action('{"action":"call_tool","tool_call":{"tool_id":"blog.post"}}') + CONTENT,
        (CallToolDecision("blog.post", '{"content":"abc"}'),),
    ),
    (
        action('{"action":"call_tool","tool_call":{"tool_id":"box.put"}}') + raw("patch", "abc"),
        (CallToolDecision("box.put", '{"patch":"abc"}'),),
    ),
    (
        action('{"action":"call_tool","tool_call":{"tool_id":"moon.write"}}') + CONTENT,
        (CallToolDecision("moon.write", '{"content":"abc"}'),),
    ),
    (
        f"<channel:thinking>Perhaps\n{action(WRITE)}{raw('content', 'evil')}</channel:thinking>\n{ANSWER}",
        (RAIN,),
    ),
)
"""Well-formed replies of edition 2 and their decisions."""

RAW_FORMS: Final = (
    # the last raw channel is not closed
    Form("unclosed", action(COMPLETE) + "<channel:final_answer>\nRain.\n", RAIN),
    Form("unclosed", "<channel:final_answer>\nRain.", RAIN),
    Form("unclosed", action(COMPLETE) + "<channel:final_answer>\nRain.\n</channel:final_an", RAIN),
    Form("unclosed", action(WRITE) + "<channel:content>\nabc", ABC),
    Form("unclosed", action(PATCH) + "<channel:patch>\n@@ -1 +1 @@\n", PATCHED),
    Form("unclosed", action(PROGRAM % "{}") + "<channel:code>\nprint(1)\n", EXEC, "print(1)"),
    Form("unclosed", action(PROGRAM % "{}") + "<channel:code>\nprint(1)\n</channel:co", EXEC, "print(1)"),
    # other spellings of the tags
    Form("close_tag", action(COMPLETE) + "<channel:final_answer>\nRain.\n</Channel:Final_Answer>", RAIN),
    Form("close_tag", action(WRITE) + "<channel:content>\nabc\n</CHANNEL:CONTENT>", ABC),
    Form("close_tag", action(WRITE) + "<channel:content>\nabc\n</channel>", ABC),
    Form("close_tag", action(WRITE) + "<channel:content>\nabc\n</ channel:content>", ABC),
    Form("open_tag", action(COMPLETE) + "<Channel:Final_Answer>\nRain.\n</Channel:Final_Answer>", RAIN),
    Form("open_tag", action(WRITE) + "<CHANNEL:content>\nabc\n</channel:content>", ABC),
    Form("open_tag", action(WRITE) + '<channel name="content">\nabc\n</channel>', ABC),
    Form("open_tag", action(PATCH) + "[channel:patch]\n@@ -1 +1 @@\n[/channel:patch]", PATCHED),
    Form("open_tag", action(COMPLETE) + "<channel:answer>\nRain.\n</channel:answer>", RAIN),
    Form(
        "open_tag",
        "<Channel:Notes>\nI write.\n</Channel:Notes>\n" + action(WRITE) + CONTENT,
        written("abc", "I write."),
    ),
    # a raw channel before its action
    Form("order", ANSWER + action(COMPLETE), RAIN),
    Form("order", CONTENT + action(WRITE), ABC),
    Form("order", raw("patch", "@@ -1 +1 @@") + action(PATCH), PATCHED),
    Form("order", "<Channel:content>\nabc\n</Channel:content>\n" + action(WRITE), ABC),
    # a slip in the action
    Form("action", action('{"action":"complete",}') + ANSWER, RAIN),
    Form("action", action('{"action":"COMPLETE"}') + ANSWER, RAIN),
    Form("action", action('{"action":"complete","answer":""}', "decision") + ANSWER, RAIN),
    Form("action", action('{"suggested_followups":[],"action":""}') + ANSWER, RAIN),
    Form("action", f"<channel:action>{COMPLETE}\n{ANSWER}", RAIN),
    Form("action", action(WRITE[:-1]) + CONTENT, ABC),
    Form("action", action(WRITE.replace("react.write", "react_write")) + CONTENT, ABC),
    Form("action", action('{"tool_id":"react.write","path":"a.md"}') + CONTENT, ABC),
    Form("action", '<tool_call>{"name":"react_write","arguments":{"path":"a.md"}}</tool_call>\n' + CONTENT, ABC),
    Form(
        "action",
        action('{"action":"call_tool","tool_call":{"tool_id":"react.write"},"params":{"path":"a.md"}}') + CONTENT,
        ABC,
    ),
    Form("action", CONTENT + WRITE, ABC),
    # an answer with something beside it
    Form("answer", "Here it is.\n" + ANSWER, RAIN),
    Form("answer", raw("final_answer", '{"action":"complete","final_answer":"Rain."}'), RAIN),
)
"""Replies of edition 2 with a slip that have one reading."""

RAW_AMBIGUOUS: Final = (
    ("two answers", raw("final_answer", "Rain.") + raw("final_answer", "Sun.")),
    ("two answers after an action", action(COMPLETE) + raw("final_answer", "Rain.") + raw("final_answer", "Sun.")),
    ("an answer in two forms", action('{"action":"complete","final_answer":"Sun."}') + ANSWER),
    ("a text in two forms", action(WRITE.replace('"a.md"', '"a.md","content":"x"')) + CONTENT),
    ("a text that is no text in JSON", action(WRITE.replace('"a.md"', '"a.md","content":{"a":1}')) + CONTENT),
    ("notes in two forms", action('{"action":"complete","notes":"a","final_answer":"b"}') + raw("notes", "c")),
    ("an answer in two forms and a slip", action('{"action":"complete","answer":"Sun.",}') + ANSWER),
    ("an answer beside a call", action(WEATHER) + ANSWER),
    ("a text for a tool without one", action(WEATHER) + CONTENT),
    ("a text for a tool whose content is an object", action(WEATHER.replace("weather.get", "box.put")) + CONTENT),
    ("a text for an answer", action('{"action":"complete","final_answer":"Rain."}') + CONTENT),
    ("a text for an answer with a slip", action('{"action":"complete","final_answer":"Rain.",}') + CONTENT),
    ("a text beside an answer", ANSWER + CONTENT),
    ("a text alone", CONTENT),
    ("notes alone", raw("notes", "I look.")),
    ("an empty answer", raw("final_answer", " ")),
    ("a patch for a write", action(WRITE) + raw("patch", "abc")),
    ("a text before two actions", CONTENT + action(WRITE) + action(PATCH)),
    ("a text of two decisions", action(WRITE[:-1]) + action(PATCH[:-1]) + CONTENT),
    ("an unclosed text before a channel", action(WRITE) + f"<channel:content>\nabc\n{action(COMPLETE)}"),
    ("an unclosed program before a channel", action(PROGRAM % "{}") + f"<channel:code>\nprint(1)\n{ANSWER}"),
    ("an unclosed answer before a summary", "<channel:final_answer>\nRain.\n" + raw("summary", "It rained.")),
    ("a call in the answer's channel", raw("final_answer", WEATHER)),
    ("a good and a bad action", action(WRITE) + CONTENT + action(WEATHER) + CONTENT),
)
"""Replies of edition 2 with more than one reading, or none."""

RAW_DRAFTS: Final = (
    f"<channel:thinking>\n{ANSWER}</channel:thinking>\nNo.",
    f"<channel:thinking>\n{action(WRITE)}{CONTENT}</channel:thinking>\nNo.",
    f"<think>\n{ANSWER}</think>\nNo.",
    f"{action(WRITE)}{CONTENT}</think>\nNo.",
    f"The page says: `{ANSWER}`",
    f"> {ANSWER}",
    f"For example:\n{ANSWER}",
    f"```md\n{ANSWER}```",
    f"The page says: {action(WRITE).replace('<channel', '<~channel')}",
    f"<channel:summary>{ANSWER}</channel:summary>",
    f"<channel:content>{action(WRITE)}</channel:content>",
    f"<channel:notes>{action(WRITE)}{CONTENT}</channel:notes>",
    f"<channel:final_answer>{WRITE}</channel:final_answer>",
    f"<example>{ANSWER}</example>",
)
"""Replies whose raw channels or decisions are only thought, shown or text; nothing is carried out."""

QUOTED_TEXTS: Final = (
    f"{action(WRITE)}The page says: `{CONTENT}`",
    f"{action(WRITE)}> {CONTENT}",
    f"{action(WRITE)}For example:\n{CONTENT}",
    f"{action(WRITE)}```md\n{CONTENT}```",
)
"""Calls whose only text is quoted in the prose after them; it does not become their parameter."""
