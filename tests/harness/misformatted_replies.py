"""Replies with the slips that models make, each with the decision that it stands for."""

from typing import Final, NamedTuple

from timeloom.core.policy.repair_reply import RepairContext, ToolForm
from timeloom.core.stream.decision import CallToolDecision, CompleteDecision, Decision

D: Final = "ReactDecisionOutV2"
THOUGHT: Final = "<channel:thinking>I look first.</channel:thinking>\n"
CALL: Final = '{"action":"call_tool","notes":"","tool_call":{"tool_id":"weather.get","params":{"city":"Oslo"}}}'
ANSWER: Final = '{"action":"complete","notes":"","final_answer":"Rain.","suggested_followups":[]}'
PROGRAM: Final = '{"action":"call_tool","tool_call":{"tool_id":"exec_tools.execute_code_python","params":%s}}'

OSLO: Final = CallToolDecision("weather.get", '{"city":"Oslo"}')
RAIN: Final = CompleteDecision("Rain.")
MORE: Final = CompleteDecision("Rain.", ("More?",))

_SCHEMA: Final = (
    '{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"ratio":{"type":"number"},'
    '"full":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}},'
    '"limit":{"anyOf":[{"type":"integer"},{"type":"null"}]},"any":{},"id":{"anyOf":[{"type":"integer"},{"type":"string"}]},'
    '"hours":{"type":"array","items":{"type":"integer"}},"rules":{"type":"object"}},"required":["city"]}'
)
CONTEXT: Final = RepairContext(
    by_name={
        "weather.get": ToolForm("weather.get", _SCHEMA),
        "files.remove_all": ToolForm("files.remove_all"),
        "exec_tools.execute_code_python": ToolForm("exec_tools.execute_code_python"),
    }
)


class Form(NamedTuple):
    """A reply with a slip, the decision that it stands for, and its program."""

    slip: str
    reply: str
    decision: Decision
    code: str | None = None


def in_channel(text: str, name: str = D) -> str:
    return f"{THOUGHT}<channel:{name}>{text}</channel:{name}>"


def answers(answer: str) -> CompleteDecision:
    return CompleteDecision(answer)


def weather(params: str) -> CallToolDecision:
    return CallToolDecision("weather.get", params)


def with_params(params: str) -> str:
    return in_channel(f'{{"action":"call_tool","tool_call":{{"tool_id":"weather.get","params":{params}}}}}')


def calls_tool(call: str) -> str:
    return in_channel(f'{{"action":"call_tool","tool_call":{call}}}')


def _complete(answer: str) -> str:
    return in_channel(f'{{"action":"complete","final_answer":{answer}}}')


def _programs() -> list[Form]:
    program = CallToolDecision("exec_tools.execute_code_python", "{}")
    timed = CallToolDecision("exec_tools.execute_code_python", '{"timeout_s":5}')
    return [
        Form("code_in_params", in_channel(PROGRAM % '{"code":"print(1)"}'), program, "print(1)"),
        Form(
            "unclosed",
            f"{THOUGHT}<channel:{D}>{PROGRAM % '{}'}\n<channel:code>\nprint(1)\n</channel:code>",
            program,
            "print(1)",
        ),
        Form(
            "code_in_params",
            in_channel(PROGRAM % '{"code":"a = 1\\nprint(a)","timeout_s":5}'),
            timed,
            "a = 1\nprint(a)",
        ),
        Form(
            "code_in_params",
            in_channel(PROGRAM % '{"code":"print(1)"}') + "<channel:code>\nprint(1)\n</channel:code>",
            program,
            "print(1)",
        ),
    ]


FORMS: Final = (
    # a raw line break or tab in a string
    Form("line_break", _complete('"one\ntwo"'), answers("one\ntwo")),
    Form("line_break", _complete('"one\r\ntwo\n\nthree"'), answers("one\r\ntwo\n\nthree")),
    Form("line_break", with_params('{"city":"New\nYork"}'), weather('{"city":"New\\nYork"}')),
    Form("tab", _complete('"a\tb"'), answers("a\tb")),
    Form("tab", with_params('{"city":"a\tb"}'), weather('{"city":"a\\tb"}')),
    # a trailing comma
    Form("trailing_comma", in_channel('{"action":"complete","final_answer":"Rain.",}'), RAIN),
    Form("trailing_comma", in_channel(ANSWER.replace("[]", '["More?",]')), MORE),
    Form("trailing_comma", with_params('{"city":"Oslo", }'), OSLO),
    Form("trailing_comma", in_channel(CALL.replace("}}}", "},},\n}")), OSLO),
    # escapes of Python and Markdown
    Form("escape", _complete(r'"it\'s wet"'), answers("it's wet")),
    Form("escape", _complete(r'"snake\_case"'), answers("snake_case")),
    Form("escape", _complete(r'"a \`b\` c"'), answers("a `b` c")),
    Form("escape", with_params(r'{"city":"Val d\'Isere"}'), weather('{"city":"Val d\'Isere"}')),
    # missing and extra braces
    Form("missing_brace", in_channel(CALL[:-1]), OSLO),
    Form("missing_brace", in_channel(CALL[:-2]), OSLO),
    Form("missing_brace", in_channel(CALL[:-3]), OSLO),
    Form("missing_brace", in_channel(ANSWER[:-1]), RAIN),
    Form(
        "missing_brace",
        in_channel('{"action":"complete","final_answer":"Rain.","suggested_followups":["More?"'),
        MORE,
    ),
    Form("missing_brace", f"{THOUGHT}<channel:{D}>{CALL[:-1]}", OSLO),
    Form("extra_brace", in_channel(CALL + "}"), OSLO),
    Form("extra_brace", in_channel(ANSWER + "}}"), RAIN),
    Form("extra_brace", in_channel(ANSWER + "\n}\n"), RAIN),
    Form("extra_brace", in_channel(f"```json\n{CALL}}}\n```"), OSLO),
    # words around the object
    Form("words", in_channel(f"Here is my decision: {CALL}"), OSLO),
    Form("words", in_channel(f"{ANSWER}\nI hope this helps."), RAIN),
    Form("words", in_channel(f"Sure!\n```json\n{CALL}\n```\nDone."), OSLO),
    Form("words", f"I call the tool now. {CALL}", OSLO),
    Form("words", f"Final: {ANSWER} That is all.", RAIN),
    # Python's words
    Form("python_literal", in_channel('{"action":"complete","final_answer":"Rain.","notes":None}'), RAIN),
    Form("python_literal", with_params('{"full":True}'), weather('{"full":true}')),
    Form("python_literal", with_params('{"full":False,"limit":None}'), weather('{"full":false,"limit":null}')),
    # quotes
    Form("single_quotes", in_channel("{'action':'complete','final_answer':'Rain.'}"), RAIN),
    Form("single_quotes", in_channel("{'action':'complete','final_answer':'It is \"wet\".'}"), answers('It is "wet".')),
    Form("single_quotes", in_channel("""{"action":"complete",'final_answer':"It's wet."}"""), answers("It's wet.")),
    Form(
        "single_quotes",
        in_channel("{'action':'call_tool','tool_call':{'tool_id':'weather.get','params':{'city':'Oslo'}}}"),
        OSLO,
    ),
    Form("unquoted_key", in_channel('{action:"complete",final_answer:"Rain."}'), RAIN),
    Form("unquoted_key", with_params('{city:"Oslo"}'), OSLO),
    # invisible characters
    Form("invisible", in_channel("\ufeff" + CALL), OSLO),
    Form("invisible", in_channel("\u200b" + ANSWER + "\u200b"), RAIN),
    Form("invisible", in_channel(ANSWER.replace(",", ",\u200b")), RAIN),
    Form("invisible", "\ufeff" + CALL, OSLO),
    Form("invisible", in_channel(ANSWER.replace(":", ":\xa0", 1)), RAIN),
    # tags
    Form("close_tag", f"<channel:thinking>a</channel>\n<channel:{D}>{CALL}</channel>", OSLO),
    Form("close_tag", f"{THOUGHT}<channel:{D}>{ANSWER}</channel>", RAIN),
    Form("close_tag", f"{THOUGHT}<channel:action>{CALL}</channel>", OSLO),
    Form("tag_case", f"<Channel:Thinking>a</Channel:Thinking><Channel:{D}>{CALL}</Channel:{D}>", OSLO),
    Form("tag_case", f"{THOUGHT}<channel:reactdecisionoutv2>{ANSWER}</channel:reactdecisionoutv2>", RAIN),
    Form("tag_case", f"{THOUGHT}<CHANNEL:REACTDECISIONOUTV2>{ANSWER}</CHANNEL:REACTDECISIONOUTV2>", RAIN),
    Form("tag_case", in_channel(CALL, "ReactDecisionOutv2"), OSLO),
    Form("tag_spaces", f"{THOUGHT}<channel: {D}>{CALL}</channel: {D}>", OSLO),
    Form("tag_spaces", f"{THOUGHT}< channel:{D} >{CALL}</ channel:{D} >", OSLO),
    Form("tag_spaces", f"{THOUGHT}<channel:{D} >{ANSWER}</channel:{D}>", RAIN),
    Form("tag_name", in_channel(CALL, "decision"), OSLO),
    Form("tag_name", in_channel(ANSWER, "Decision"), RAIN),
    Form("tag_name", in_channel(CALL, "ReactDecision"), OSLO),
    Form("tag_name", in_channel(ANSWER, "react_decision_out_v2"), RAIN),
    Form("tag_name", f'{THOUGHT}<channel="{D}">{CALL}</channel>', OSLO),
    Form("unclosed", f"<Channel:Thinking>I look.\n<Channel:Decision>{CALL}</Channel:Decision>", OSLO),
    # a decision without a channel
    Form("bare", CALL, OSLO),
    Form("bare", ANSWER, RAIN),
    Form("bare", f"{THOUGHT}{CALL}", OSLO),
    Form("bare", f"{THOUGHT}\n\n{ANSWER}\n", RAIN),
    Form("bare", CALL.replace(",", ",\n  "), OSLO),
    Form("fenced", f"```json\n{CALL}\n```", OSLO),
    Form("fenced", f"```\n{ANSWER}\n```", RAIN),
    Form("fenced", f"{THOUGHT}```JSON\n{CALL}\n```\n", OSLO),
    Form("fenced", f"I check the weather.\n\n```json\n{CALL}\n```", OSLO),
    Form("fenced", f"~~~json\n{ANSWER}\n~~~", RAIN),
    # the action
    Form("action_case", in_channel(ANSWER.replace("complete", "COMPLETE")), RAIN),
    Form("action_case", in_channel(CALL.replace("call_tool", "Call_Tool")), OSLO),
    Form("action_case", in_channel(CALL.replace("call_tool", "call-tool")), OSLO),
    Form("action_case", in_channel(CALL.replace("call_tool", "CALL TOOL")), OSLO),
    Form("action_case", in_channel(ANSWER.replace("complete", " Complete ")), RAIN),
    Form("action_missing", in_channel('{"final_answer":"Rain."}'), RAIN),
    Form("action_missing", in_channel('{"tool_call":{"tool_id":"weather.get","params":{"city":"Oslo"}}}'), OSLO),
    Form(
        "action_missing",
        in_channel('{"action":"","final_answer":"Rain.","tool_call":{"tool_id":"","params":{}}}'),
        RAIN,
    ),
    Form("action_missing", in_channel('{"action":" ","final_answer":"Rain."}'), RAIN),
    Form("action_missing", in_channel(CALL.replace('"call_tool"', '"tool_call"')), OSLO),
    Form("action_missing", in_channel(ANSWER.replace('"complete"', '"final_answer"')), RAIN),
    # the names of a call
    Form(
        "call_names",
        in_channel('{"action":"call_tool","tool_call":{"name":"weather.get","arguments":{"city":"Oslo"}}}'),
        OSLO,
    ),
    Form(
        "call_names",
        in_channel('{"action":"call_tool","tool_call":{"tool":"weather.get","params":{"city":"Oslo"}}}'),
        OSLO,
    ),
    Form(
        "call_names",
        in_channel('{"action":"call_tool","tool_call":{"tool_name":"weather.get","parameters":{"city":"Oslo"}}}'),
        OSLO,
    ),
    Form("call_names", in_channel('{"name":"weather.get","arguments":{"city":"Oslo"}}'), OSLO),
    Form("call_names", in_channel('{"tool_id":"weather.get","params":{"city":"Oslo"}}'), OSLO),
    Form("call_names", in_channel('{"action":"call_tool","tool_id":"weather.get","params":{"city":"Oslo"}}'), OSLO),
    Form("call_names", '{"name":"weather.get","arguments":{"city":"Oslo"}}', OSLO),
    Form(
        "call_names",
        in_channel('{"type":"function","function":{"name":"weather.get","arguments":"{\\"city\\":\\"Oslo\\"}"}}'),
        OSLO,
    ),
    # parameters as text
    Form("params_text", with_params('"{\\"city\\":\\"Oslo\\"}"'), OSLO),
    Form("params_text", with_params("\"{'city': 'Oslo'}\""), OSLO),
    Form("params_text", with_params('""'), weather("{}")),
    Form("params_text", in_channel('{"name":"weather.get","arguments":"{\\"city\\": \\"Oslo\\"}"}'), OSLO),
    # a list of one
    Form("list", in_channel(f"[{CALL}]"), OSLO),
    Form("list", in_channel(f"[\n{ANSWER}\n]"), RAIN),
    Form(
        "list",
        in_channel('{"action":"call_tool","tool_call":[{"tool_id":"weather.get","params":{"city":"Oslo"}}]}'),
        OSLO,
    ),
    Form(
        "list",
        in_channel('{"action":"call_tool","tool_calls":[{"tool_id":"weather.get","params":{"city":"Oslo"}}]}'),
        OSLO,
    ),
    Form("list", f"```json\n[{CALL}]\n```", OSLO),
    # the same decision twice
    Form("twice", in_channel(CALL) + in_channel(CALL), OSLO),
    Form("twice", in_channel(f"{ANSWER}\n{ANSWER}"), RAIN),
    Form("twice", in_channel(CALL[:-1]) + in_channel(CALL[:-1]), OSLO),
    Form("twice", f"{CALL}\n\n```json\n{CALL}\n```", OSLO),
    # a string where a list of strings is expected
    Form("string_for_list", in_channel(ANSWER.replace("[]", '"More?"')), MORE),
    Form("string_for_list", with_params('{"tags":"wind"}'), weather('{"tags":["wind"]}')),
    Form("string_for_list", with_params('{"tags":"[\\"wind\\",\\"sun\\"]"}'), weather('{"tags":["wind","sun"]}')),
    # text where a number or a boolean is expected
    Form("text_for_value", with_params('{"days":"100"}'), weather('{"days":100}')),
    Form("text_for_value", with_params('{"ratio":"-0.5"}'), weather('{"ratio":-0.5}')),
    Form("text_for_value", with_params('{"full":"True"}'), weather('{"full":true}')),
    Form("text_for_value", with_params('{"limit":"7","city":"Oslo"}'), weather('{"limit":7,"city":"Oslo"}')),
    # the spelling of a tool
    Form("tool_spelling", in_channel(CALL.replace("weather.get", "weather_get")), OSLO),
    Form("tool_spelling", in_channel(CALL.replace("weather.get", "weather-get")), OSLO),
    Form("tool_spelling", in_channel(CALL.replace("weather.get", "Weather.Get")), OSLO),
    Form("tool_spelling", in_channel(CALL.replace("weather.get", "weather/get")), OSLO),
    *_programs(),
    # formats of other vendors
    Form("vendor", '<tool_call>\n{"name": "weather.get", "arguments": {"city":"Oslo"}}\n</tool_call>', OSLO),
    Form("vendor", f'{THOUGHT}<tool_call>{{"name":"weather_get","arguments":{{"city":"Oslo"}}}}</tool_call>', OSLO),
    Form("vendor", 'I look.\n<function=weather.get>{"city":"Oslo"}</function>', OSLO),
    Form("vendor", '<function=weather.get>{"city":"Oslo",}</function>', OSLO),
    Form(
        "vendor",
        "<tool_call>\n<function=weather.get>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        OSLO,
    ),
    Form("vendor", '<tool_call>{"name":"weather.get","arguments":{"city":"Oslo"}}', OSLO),
    Form("vendor", '<tool_calls>[{"name":"weather.get","arguments":{"city":"Oslo"}}]</tool_calls>', OSLO),
    # thoughts in other tags
    Form("thoughts", f"<think>Perhaps {ANSWER}? No.</think>\n{CALL}", OSLO),
    Form("thoughts", f"<thinking>I look.</thinking>\n```json\n{CALL}\n```", OSLO),
    Form("thoughts", f"Perhaps {ANSWER}? No.</think>\n{CALL}", OSLO),
)

AMBIGUOUS: Final = (
    ("two decisions", in_channel(CALL[:-1]) + in_channel(CALL.replace("Oslo", "Rome")[:-1])),
    ("two bare decisions", f"{CALL}\n{CALL.replace('Oslo', 'Rome')}"),
    ("a decision and a broken one", in_channel(CALL) + in_channel('{"action":"complete","final_answer":"a"b"}')),
    ("an unescaped quote", in_channel('{"action":"complete","final_answer":"He said "hi"."}')),
    ("a backslash that may be meant", in_channel(r'{"action":"complete","final_answer":"\d+"}')),
    ("a duplicate key", in_channel('{"action":"complete","final_answer":"a","final_answer":"b",}')),
    ("an answer and a call", in_channel('{"tool_call":{"tool_id":"weather.get","params":{}},"final_answer":"Rain."}')),
    ("an unknown action", in_channel('{"action":"dance","final_answer":"Rain."}')),
    ("parameters under two names", in_channel('{"tool_id":"weather.get","params":{},"arguments":{"city":"Oslo"}}')),
    ("a list of two", in_channel(f"[{CALL},{ANSWER}]")),
    ("a number that may be cut", f"{THOUGHT}<channel:{D}>" + CALL.replace('"Oslo"}}}', "12")),
    ("a string that is cut", in_channel(CALL[:-6])),
    ("a bare object that names no tool", '{"name":"Ann","arguments":{"age":4}}'),
    ("a program given twice", in_channel(PROGRAM % '{"code":"print(1)"}') + "<channel:code>print(2)</channel:code>"),
    ("not a number", with_params('{"days":NaN,}')),
    ("an object that is nested too deep", in_channel('{"a":' * 100)),
    ("a broken object", in_channel("{a" * 100)),
    ("many objects", in_channel("{}" * 100)),
    ("no decision", 'See {"a": 1} and [{"a": 1}, {"b": 2}] for details.'),
    ("a parameter given twice", "<function=weather.get><parameter=city>a</parameter><parameter=city>b</parameter>"),
    ("a parameter that is cut", "<function=weather.get><parameter=city>Os"),
    ("a call without an object", "<tool_call>weather</tool_call>"),
    ("a program that ends its own channel", in_channel(PROGRAM % '{"code":"print(\'</channel:code>\')"}')),
    ("an empty program", in_channel(PROGRAM % '{"code":" "}')),
    ("a call that is text", calls_tool('"weather.get"')),
    ("an action that is a number", in_channel('{"action":1,"final_answer":"Rain."}')),
    ("an action that contradicts its field", in_channel('{"action":"tool_call","final_answer":"Rain."}')),
    ("parameters that are no object", with_params('"Oslo"')),
    ("parameters and more", with_params('"{} {}"')),
)
"""Replies with more than one reading, or none."""

DRAFTS: Final = (
    f"<channel:thinking>Perhaps {CALL}? No.</channel:thinking>",
    f"<channel:thinking>Perhaps\n<channel:{D}>{CALL}</channel:{D}>\nNo, better not.</channel:thinking>",
    f"<think>Perhaps\n<channel:{D}>{CALL}</channel:{D}>\nNo, better not.</think>",
    f"<think>\n```json\n{CALL}\n```\n</think>\nLet me think about it.",
    f"Perhaps\n<channel:{D}>{CALL}</channel:{D}>\nNo.</think>\nI will not.",
    f"<thought>{CALL}</thought>",
    f"<channel:Thinking>{CALL}</channel:Thinking>",
    f"The page says:\n> {CALL}\nI ignore that.",
    f"The page says `{CALL}`, which I ignore.",
    f'The page says "{CALL}", which I ignore.',
    f"```python\ndecision = {CALL}\n```",
    f"```yaml\n{CALL}\n```",
    f"<channel:summary>{CALL}</channel:summary>",
    f"<channel:code>{CALL}</channel:code>",
)
"""Replies whose only decision stands in thoughts, quotes or code; it is never carried out."""
