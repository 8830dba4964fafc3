"""More replies with slips, in the forms of other vendors, loose JSON and other shapes of a decision."""

import html
from typing import Final

from tests.harness.misformatted_replies import (
    ANSWER,
    CALL,
    OSLO,
    PROGRAM,
    RAIN,
    THOUGHT,
    D,
    Form,
    answers,
    calls_tool,
    in_channel,
    weather,
    with_params,
)
from timeloom.core.stream.decision import CallToolDecision

ARGS: Final = '{"city":"Oslo"}'
NAMED: Final = f'{{"name":"weather_get","arguments":{ARGS}}}'
FENCE: Final = "```"
EXEC: Final = CallToolDecision("exec_tools.execute_code_python", "{}")
NOTED: Final = CallToolDecision("weather.get", ARGS, "Look.")


def _answer(answer: str, more: str = "") -> str:
    return in_channel(f'{{"action":"complete","final_answer":{answer}{more}}}')


def _decides(fields: str) -> str:
    return in_channel(f"{{{fields}}}")


def _tag(opened: str, closed: str, text: str = CALL) -> str:
    return f"{THOUGHT}{opened}{text}{closed}"


def _invoke(name: str, more: str = "") -> str:
    return f'<invoke name="{name}">\n<parameter name="city">Oslo</parameter>{more}\n</invoke>'


LOOSE_JSON: Final = (
    Form("commas", in_channel('{"action":"complete"\n"final_answer":"Rain."}'), RAIN),
    Form("commas", in_channel(CALL[:-1] + ' "mood":"good"}'), OSLO),
    Form("commas", in_channel(CALL.replace(',"tool_call"', ',,"tool_call"')), OSLO),
    Form("commas", in_channel("{," + ANSWER[1:]), RAIN),
    Form("commas", in_channel(ANSWER + ";"), RAIN),
    Form("commas", in_channel(ANSWER + ","), RAIN),
    Form("control", _answer('"a\x0bb\x0cc\x1b"'), answers("a\x0bb\x0cc\x1b")),
    Form(
        "control",
        _answer(f'"# Rain\n\n{FENCE}py\nprint(1)\n{FENCE}\nDone."'),
        answers(f"# Rain\n\n{FENCE}py\nprint(1)\n{FENCE}\nDone."),
    ),
    Form("braces", in_channel("{" + ANSWER + "}"), RAIN),
    Form("braces", in_channel("{{" + CALL[1:-1] + "}}"), OSLO),
    Form("braces", in_channel(ANSWER[1:]), RAIN),
    Form("braces", in_channel(ANSWER[:-1] + "]"), RAIN),
    Form("braces", with_params('{"tags":["wind","sun"').replace("}}</", "</"), weather('{"tags":["wind","sun"]}')),
    Form("braces", with_params('{"tags":["wind","sun"}'), weather('{"tags":["wind","sun"]}')),
    Form("braces", with_params('{"days":3').replace("}}</", "</"), weather('{"days":3}')),
    Form("braces", with_params('{"tags":["wind",}'), weather('{"tags":["wind"]}')),
    Form("braces", f"{THOUGHT}<channel:{D}>{CALL[:-1]}\n</channel:React", OSLO),
    Form("literals", _answer('"Rain."', ',"tool_call":undefined'), RAIN),
    Form("literals", with_params('{"full":TRUE,"limit":none}'), weather('{"full":true,"limit":null}')),
    Form("literals", with_params('{"tags":("wind","sun")}'), weather('{"tags":["wind","sun"]}')),
    Form("literals", with_params('{"tags":("wind",)}'), weather('{"tags":["wind"]}')),
    Form("literals", with_params('{"tags":("wind","sun"').replace("}}</", "</"), weather('{"tags":["wind","sun"]}')),
    Form("literals", with_params('{"days":+3}'), weather('{"days":3}')),
    Form("literals", with_params('{"ratio":-.5}'), weather('{"ratio":-0.5}')),
    Form("literals", in_channel('{"action":complete,"final_answer":"Rain."}'), RAIN),
    Form("quotes", in_channel("{“action”:“complete”,“final_answer”:“Rain.”}"), RAIN),
    Form("quotes", in_channel("{‘action’:‘complete’,‘final_answer’:‘Rain.’}"), RAIN),
    Form("quotes", in_channel('{"action"："complete"，"final_answer"："Rain."}'), RAIN),
    Form("quotes", _answer('"""It is "wet"\nhere."""'), answers('It is "wet"\nhere.')),
    Form("quotes", in_channel("{'action':'complete','final_answer':'''It's wet.'''}"), answers("It's wet.")),
    Form("quotes", _answer("`Rain.`"), RAIN),
    Form("comments", in_channel(ANSWER.replace(",", ", // done\n", 1)), RAIN),
    Form("comments", in_channel(CALL.replace(",", ", /* look */", 1)), OSLO),
    Form("comments", in_channel(ANSWER.replace(",", ", # done\n", 1)), RAIN),
    Form("comments", _answer('"see http://a.example/x",'), answers("see http://a.example/x")),
    Form("escaped", in_channel(html.escape(CALL)), OSLO),
    Form("escaped", html.escape(f"<channel:{D}>{ANSWER}</channel:{D}>"), RAIN),
    Form("escaped", in_channel(ANSWER.replace('"', '\\"')), RAIN),
    Form("escaped", in_channel('"' + CALL.replace('"', '\\"') + '"'), OSLO),
    Form("escaped", in_channel(CALL.replace(",", ",\\n")), OSLO),
    Form("repeated_key", _answer('"Rain."', ',"action":"complete"'), RAIN),
    Form("repeated_key", with_params('{"city":"Oslo","city":"Oslo"}'), OSLO),
    Form("fenced", in_channel(f"{FENCE}javascript\n{CALL}\n{FENCE}"), OSLO),
    Form("fenced", in_channel(f"~~~json\n{ANSWER}\n~~~"), RAIN),
    Form("fenced", in_channel(f"{FENCE}\n{FENCE}json\n{ANSWER}\n{FENCE}\n{FENCE}"), RAIN),
    Form("fenced", in_channel(f"{FENCE}js\n{ANSWER}"), RAIN),
    Form("fenced", f'{FENCE}json title="decision"\n{CALL}\n{FENCE}', OSLO),
    Form("fenced", f"{FENCE}json\n{CALL[:-1]}\n{FENCE}\nPlease wait.", OSLO),
    Form("invisible", in_channel(ANSWER.replace(",", ",\u3000\xad")), RAIN),
)

SHAPES: Final = (
    *(
        Form("action", in_channel(ANSWER.replace("complete", word)), RAIN)
        for word in ("complete.", "done", "Finish", "respond")
    ),
    *(
        Form("action", in_channel(CALL.replace("call_tool", word)), OSLO)
        for word in ("callTool", "tool", "use_tool", "tool_use")
    ),
    Form("action", in_channel(ANSWER.replace('"complete"', '["complete"]')), RAIN),
    Form("action", in_channel(CALL.replace('"call_tool"', "null")), OSLO),
    Form("action", _decides('"action":"weather.get","action_input":{"city":"Oslo"}'), OSLO),
    Form("action", _decides('"action":"weather_get","params":{"city":"Oslo"}'), OSLO),
    Form("action", _decides('"action":"Final Answer","action_input":"Rain."'), RAIN),
    Form("action", f'{FENCE}json\n{{"action":"weather_get","action_input":{ARGS}}}\n{FENCE}', OSLO),
    Form("names", _decides('"Action":"complete","Final_Answer":"Rain."'), RAIN),
    Form("names", _decides('"action":"callTool","toolCall":{"toolId":"weather.get","params":{"city":"Oslo"}}'), OSLO),
    Form("names", _decides('"action":"complete","answer":"Rain."'), RAIN),
    Form("names", _decides('"action":"complete","message":"Rain."'), RAIN),
    Form("names", _decides('"answer":"Rain."'), RAIN),
    Form("names", calls_tool('{"id":"weather.get","input":{"city":"Oslo"}}'), OSLO),
    Form("names", _decides('"action":"call_tool","tool":"weather.get","tool_input":{"city":"Oslo"}'), OSLO),
    Form("names", calls_tool('{"weather_get":{"city":"Oslo"}}'), OSLO),
    Form(
        "names", calls_tool('{"type":"function","function":{"name":"weather.get","arguments":{"city":"Oslo"}}}'), OSLO
    ),
    Form("names", calls_tool('"weather.get","params":{"city":"Oslo"}'), OSLO),
    Form("names", calls_tool('"{\\"tool_id\\":\\"weather.get\\",\\"params\\":{\\"city\\":\\"Oslo\\"}}"'), OSLO),
    Form(
        "params", _decides('"action":"call_tool","tool_call":{"tool_id":"weather.get"},"params":{"city":"Oslo"}'), OSLO
    ),
    Form("params", calls_tool('{"tool_id":"weather.get","arguments":{"city":"Oslo"}}'), OSLO),
    Form("params", calls_tool('{"tool_id":"weather.get","city":"Oslo"}'), OSLO),
    Form("params", calls_tool('{"tool":"weather.get","city":"Oslo"}'), OSLO),
    Form("params", _decides('"action":"call_tool","tool_id":"weather.get","city":"Oslo"'), OSLO),
    Form("params", with_params('{"params":{"city":"Oslo"}}'), OSLO),
    Form("params", with_params('[{"city":"Oslo"}]'), OSLO),
    Form(
        "params",
        with_params("[]").replace("weather.get", "files.remove_all"),
        CallToolDecision("files.remove_all", "{}"),
    ),
    Form("wrapped", in_channel(f'{{"decision":{CALL}}}'), OSLO),
    Form("wrapped", in_channel(f'{{"{D}":{ANSWER}}}'), RAIN),
    Form("wrapped", f'{{"channel:thinking":"I look.","channel:{D}":{CALL}}}', OSLO),
    Form("answer", _answer('["Rain."]'), RAIN),
    Form("answer", _answer("42"), answers("42")),
    Form("answer", _answer('{"text":"Rain."}'), RAIN),
    Form("answer", in_channel(CALL.replace('"notes":""', '"notes":["Look."]')), NOTED),
    Form("values", with_params('{"city":"Oslo","days":null}'), OSLO),
    Form("values", with_params('{"city":["Oslo"]}'), OSLO),
    Form("values", with_params('{"days":[3]}'), weather('{"days":3}')),
    Form("values", with_params('{"city":42}'), weather('{"city":"42"}')),
    Form("values", with_params('{"hours":["1","2"]}'), weather('{"hours":[1,2]}')),
    Form("values", with_params('{"hours":7}'), weather('{"hours":[7]}')),
    Form("values", with_params('{"hours":"[1, 2]"}'), weather('{"hours":[1, 2]}')),
    Form("values", with_params('{"rules":"{\\"a\\":\\"b\\"}"}'), weather('{"rules":{"a":"b"}}')),
    *(
        Form("tool_spelling", in_channel(CALL.replace("weather.get", name)), OSLO)
        for name in ("functions.weather_get", "tools.weather.get", "default_api.weather_get", "weather.get()")
    ),
)

TAGS: Final = (
    Form("tag_name", in_channel(CALL, "ReactDecisionOutV3"), OSLO),
    Form("tag_name", in_channel(CALL, "tool_call"), OSLO),
    Form("tag_name", in_channel(ANSWER, "final"), RAIN),
    Form("tag_name", in_channel("Rain.", "final_answer"), RAIN),
    Form("tag_name", f"{THOUGHT}<channel:final_answer>Rain.", RAIN),
    Form("harmony", "<|channel|>final<|message|>Rain.", RAIN),
    Form("tag_form", _tag(f'<channel name="{D}">', "</channel>"), OSLO),
    Form("tag_form", _tag(f"[channel:{D}]", f"[/channel:{D}]"), OSLO),
    Form("tag_form", _tag(f"<{D}>", f"</{D}>"), OSLO),
    Form("tag_form", _tag(f"<|channel|>{D}<|message|>", "<|end|>"), OSLO),
    Form("tag_form", _tag("<decision>", "</decision>", ANSWER), RAIN),
    Form("thoughts", f"<channel:{D}><think>I look.</think>{CALL}</channel:{D}>", OSLO),
    Form("thoughts", f"[THINK]Perhaps {ANSWER}?[/THINK]\n{CALL}", OSLO),
    Form("thoughts", f"<|begin_of_thought|>I look.<|end_of_thought|>\n{CALL}", OSLO),
    Form("thoughts", f"<Analysis>Perhaps {ANSWER}?</Analysis>\n{CALL}", OSLO),
    Form("thoughts", f"{FENCE}xml\n<channel:decision>{CALL}</channel:decision>\n{FENCE}", OSLO),
    Form("thoughts", f"See <details> and </pre>.\n{CALL}", OSLO),
)

VENDORS: Final = (
    Form("hermes", f"<toolcall>{NAMED}</toolcall>", OSLO),
    Form("hermes", f"<functioncall>{NAMED}</functioncall>", OSLO),
    Form("hermes", f"{FENCE}xml\n<tool_call>\n{NAMED}\n</tool_call>\n{FENCE}", OSLO),
    Form("hermes", in_channel(f"<tool_call>{NAMED}</tool_call>"), OSLO),
    Form("llama", f'<function="weather.get">{ARGS}</function>', OSLO),
    Form("llama", f'<function name="weather.get">{ARGS}</function>', OSLO),
    Form("llama", f"<function=weather_get{ARGS}></function>", OSLO),
    Form("llama", in_channel(f"<function=weather_get>{ARGS}</function>"), OSLO),
    Form("llama", "<function=files.remove_all>{}</function>", CallToolDecision("files.remove_all", "{}")),
    Form("llama", f'<|python_tag|>{{"name":"weather_get","parameters":{ARGS}}}<|eom_id|>', OSLO),
    Form("llama", '<|python_tag|>weather.get(city="Oslo")', OSLO),
    Form("llama", '[weather_get(city="Oslo", days=3)]', weather('{"city":"Oslo","days":3}')),
    Form("llama", "weather_get(city='Oslo')", OSLO),
    Form(
        "claude",
        f"<function_calls>\n{_invoke('weather.get')}\n</function_calls>",
        OSLO,
    ),
    Form(
        "claude",
        _invoke("weather_get", '<parameter name="days">3</parameter>'),
        weather('{"city":"Oslo","days":3}'),
    ),
    Form(
        "claude", "<invoke><tool_name>weather_get</tool_name><parameters><city>Oslo</city></parameters></invoke>", OSLO
    ),
    Form("claude", f'{{"type":"tool_use","id":"toolu_1","name":"weather_get","input":{ARGS}}}', OSLO),
    Form("vendor", "<tool_call>weather_get\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>", OSLO),
    Form("mistral", f"[TOOL_CALLS] [{NAMED}]", OSLO),
    Form("mistral", f"[TOOL_CALLS]weather_get[ARGS]{ARGS}", OSLO),
    Form("mistral", f"[TOOL_CALLS]weather_get{ARGS}", OSLO),
    Form(
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather_get\n"
        f"{FENCE}json\n{ARGS}\n{FENCE}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        OSLO,
    ),
    Form("deepseek", f"<｜tool▁call▁begin｜>weather_get<｜tool▁sep｜>{ARGS}<｜tool▁call▁end｜>", OSLO),
    Form(
        "harmony",
        "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant"
        f"<|channel|>commentary to=functions.weather_get <|constrain|>json<|message|>{ARGS}<|call|>",
        OSLO,
    ),
    Form(
        "harmony",
        "<|channel|>analysis<|message|>I know.<|end|><|start|>assistant<|channel|>final<|message|>Rain.<|return|>",
        RAIN,
    ),
    Form(
        "vendor", f"<|tool_call_begin|>functions.weather_get:0<|tool_call_argument_begin|>{ARGS}<|tool_call_end|>", OSLO
    ),
    Form("vendor", f'<|START_ACTION|>[{{"tool_name":"weather_get","parameters":{ARGS}}}]<|END_ACTION|>', OSLO),
    Form("vendor", f"<|tool_call|>[{NAMED}]<|/tool_call|>", OSLO),
    Form("vendor", f'{{"functionCall":{{"name":"weather_get","args":{ARGS}}}}}', OSLO),
    Form(
        "openai",
        '{"tool_calls":[{"type":"function","function":{"name":"weather_get","arguments":"{\\"city\\":\\"Oslo\\"}"}}]}',
        OSLO,
    ),
    Form("openai", '{"function_call":{"name":"weather_get","arguments":"{\\"city\\":\\"Oslo\\"}"}}', OSLO),
    Form("openai", f'{{"tool_uses":[{{"recipient_name":"functions.weather_get","parameters":{ARGS}}}]}}', OSLO),
    Form("openai", f'{{"weather_get":{ARGS}}}', OSLO),
    Form("react", f"Thought: I look.\nAction: weather.get\nAction Input: {ARGS}", OSLO),
    Form("react", f"**Action:** weather_get\n**Action Input:** {FENCE}json\n{ARGS}\n{FENCE}\nObservation:", OSLO),
    Form("react", f"Tool: weather.get\nParams: {ARGS}\n\nTool: weather.get\nParams: {ARGS}", OSLO),
)

PROGRAMS: Final = (
    Form("code", in_channel(PROGRAM % '{"code":"```python\\nprint(1)\\n```"}'), EXEC, "print(1)"),
    Form("code", in_channel(PROGRAM % '{"code":["a = 1","print(a)"]}'), EXEC, "a = 1\nprint(a)"),
    Form("code", in_channel(PROGRAM % '{"program":"print(1)"}'), EXEC, "print(1)"),
    Form("code", in_channel(PROGRAM % "{}") + f"\n{FENCE}python\nprint(1)\n{FENCE}\n", EXEC, "print(1)"),
    Form("code", f"{FENCE}\nprint(1)\n{FENCE}\n" + in_channel(PROGRAM % "{}"), EXEC, "print(1)"),
    Form("code", in_channel(PROGRAM % "{}" + f"\n{FENCE}py\nprint(1)\n{FENCE}"), EXEC, "print(1)"),
    Form("code", in_channel(PROGRAM % "{}") + "<code>\nprint(1)\n</code>", EXEC, "print(1)"),
    Form("code", in_channel(PROGRAM % "{}") + "<channel:python>\nprint(1)\n</channel:python>", EXEC, "print(1)"),
    Form("code", "<channel:code>\nprint(1)\n</channel>\n" + in_channel(PROGRAM % "{}"), EXEC, "print(1)"),
    Form("code", (PROGRAM % "{}")[:-1] + ',"code":"print(1)"}', EXEC, "print(1)"),
    Form("code", calls_tool('[{"tool_id":"exec_tools.execute_code_python"}],"code":"print(1)"'), EXEC, "print(1)"),
    Form("code", in_channel((PROGRAM % "{}")[:-1] + ',"code":"print(1)"}'), EXEC, "print(1)"),
    Form("code", in_channel((PROGRAM % "{}")[:-2] + ',"code":"print(1)"}}'), EXEC, "print(1)"),
)

MORE_FORMS: Final = (*LOOSE_JSON, *SHAPES, *TAGS, *VENDORS, *PROGRAMS)

MORE_AMBIGUOUS: Final = (
    ("a list that may lack an item", with_params('{"tags":["wind",,"sun"]}')),
    ("one value in parentheses", with_params('{"tags":("wind")}')),
    ("a comment that hides a field", with_params('{"city":"Oslo", // "days":3}\n}')),
    ("a placeholder", with_params('{"city":"Oslo", ...}')),
    ("a template with a value to fill in", _answer("`It is ${weather}.`")),
    ("a raw null character", _answer('"a\0b"')),
    ("half of a character", _answer('"a\ud800b",')),
    ("the escape of half a character", '{"action":"complete","final_answer":"\\ud800"}'),
    ("a number out of range", f'{{"action":"complete","final_answer":"Rain.","n":1{"0" * 400}.5}}'),
    ("a parameter with two values", with_params('{"city":"Oslo","city":"Rome"}')),
    ("a missing comma on one line", in_channel('{"action":"complete" "final_answer":"Rain."}')),
    ("a list with a missing comma", with_params('{"tags":["wind"\n"sun"]}')),
    ("a word as a parameter", with_params('{"city":Oslo}')),
    ("a broken escape of the whole object", in_channel('{\\"action\\": \\"complete\\", "final_answer": "a\\x"')),
    ("a fenced object that is cut", f'{FENCE}json\n{{"action":\n{FENCE}'),
    ("parameters that are a list of numbers", with_params("[1]")),
    ("two texts in a list", _answer('["a","b"]')),
    ("an answer that is a number in a list", _answer("[1]")),
    ("an answer that is data", _answer('{"city":"Oslo"}')),
    ("an answer that is true", _answer("true")),
    ("an answer under two names", _decides('"action":"complete","answer":"a","response":"b"')),
    ("a field under two names", _decides('"Action":"complete","ACTION":"exit","final_answer":"a"')),
    ("a tool under two names", calls_tool('{"name":"weather.get","tool":"files.remove_all","params":{}}')),
    ("parameters and a text", calls_tool('{"name":"weather.get","arguments":"Oslo"}')),
    ("parameters and a list", with_params('[{"city":"Oslo"},{"city":"Rome"}]')),
    ("an action that names no tool", _decides('"action":"moon.get","action_input":{"city":"Oslo"}')),
    ("an action that is a list of two", _decides('"action":["complete","exit"],"final_answer":"a"')),
    ("tools that are no text", _decides('"action":"call_tool","tool":{"a":1}')),
    ("a call without parameters that is text", calls_tool('"moon.get","params":{}')),
    ("an action that is a call", in_channel('{"action":{"tool_id":"weather.get","params":{"city":"Oslo"}}}')),
    ("a wrapped text", in_channel('{"decision":"complete"}')),
    ("plain text in the decision's channel", in_channel("It will rain.")),
    ("an answer that holds tags", in_channel("Write <tool_call>.", "final_answer")),
    ("two decisions in the answer", in_channel(f"{CALL}\n{ANSWER}", "final")),
    ("two actions", f'Action: weather.get\nAction Input: {ARGS}\nAction: weather.get\nAction Input: {{"city":"Rome"}}'),
    ("three actions", f"Action: weather.get\nAction Input: {ARGS}\n" * 3),
    ("an action with an invented result", f"Action: weather.get\nAction Input: {ARGS}\nObservation: Rain."),
    ("an action whose input is cut", 'Action: weather.get\nAction Input: {"city":"Os'),
    ("a call with a position", '[weather_get("Oslo")]'),
    ("a call with a name twice", '[weather_get(city="Oslo", city="Oslo")]'),
    ("a call with a broken value", "[weather_get(city=Oslo)]"),
    ("a call of no tool", 'print(text="Oslo")'),
    ("a call without its bracket", '[weather_get(city="Oslo")'),
    (
        "a parameter with markup",
        "<invoke><name>weather_get</name><parameters><city>a<b>c</b></city></parameters></invoke>",
    ),
    ("an argument that is cut", "<tool_call>weather_get\n<arg_key>city</arg_key>\n<arg_value>Os"),
    (
        "an argument given twice",
        "<tool_call>weather_get" + "<arg_key>city</arg_key><arg_value>a</arg_value>" * 2 + "</tool_call>",
    ),
    ("words before a call", f"<tool_call>please call weather_get {ARGS}</tool_call>"),
    ("a call that names no tool", "<tool_call>[1] {}</tool_call>"),
    ("two vendor calls", f'<function=weather.get>{ARGS}</function><function=weather.get>{{"city":"Rome"}}</function>'),
    ("two tokens", f'[TOOL_CALLS]weather_get{ARGS}[TOOL_CALLS]weather_get{{"city":"Rome"}}'),
    ("two programs", in_channel(PROGRAM % "{}") + f"\n{FENCE}py\na\n{FENCE}\n{FENCE}py\nb\n{FENCE}"),
    ("a program in another language", in_channel(PROGRAM % "{}") + f"\n{FENCE}bash\nls\n{FENCE}"),
    ("a program that is a number", in_channel(PROGRAM % '{"code":1}')),
    ("a program and a broken decision", in_channel(PROGRAM % '{"code":"a"') + in_channel("{a")),
)
"""Replies with more than one reading, or none."""

MORE_DRAFTS: Final = (
    *(
        f"<{name}>\n{text}\n</{name}>\nI will not."
        for name in ("scratchpad", "reflection", "analysis", "antThinking", "seed:think", "inner_monologue")
        for text in (CALL, f"<channel:{D}>{CALL}</channel:{D}>", f"<tool_call>{NAMED}</tool_call>")
    ),
    *(f"<{name}>{CALL}</{name}>" for name in ("summary", "example", "pre", "blockquote", "details", "tool_response")),
    f"[THINK]\n<channel:{D}>{CALL}</channel:{D}>\n[/THINK]\nI will not.",
    f"<|channel|>analysis<|message|>\n<channel:{D}>{CALL}</channel:{D}>\n<|end|>I will not.",
    f"<|channel|>analysis<|message|>Perhaps {CALL}<|end|>",
    f"<|channel|>analysis<|message|>a\n<channel:decision>{CALL}</channel:decision>",
    f'<channel name="thinking">Perhaps {CALL}</channel>',
    f"[channel:thinking]Perhaps {CALL}[/channel:thinking]",
    f"<channel:thinking>a </channel> {CALL}</channel:thinking>",
    f"<channel:code>a = '</channel>'\n{CALL}</channel:code>",
    f"<channel:draft>{CALL}</channel:draft>",
    f"<!-- {CALL} -->\nNothing to do.",
    f"Thought: I could write {CALL} but that is wrong.",
    f"For example:\n{FENCE}json\n{CALL}\n{FENCE}",
    f"{CALL}\nNo, I will not do that.",
    f"I could write <tool_call>{NAMED}</tool_call>.",
    f"<tool_call>{NAMED}</tool_call>\nBut that is wrong.",
    f"Write `<tool_call>{NAMED}</tool_call>` for that.",
    f"Write `<channel:decision>{CALL}</channel:decision>` for that.",
    f"> <tool_call>{NAMED}</tool_call>",
    f"{FENCE}python\na = '<tool_call>{NAMED}</tool_call>'\n{FENCE}",
    f"{FENCE}python\na = '<channel:decision>{CALL}</channel:decision>'\n{FENCE}",
    f"{FENCE}python\nweather_get(city='Oslo')\n{FENCE}",
    f"{FENCE}python\nAction: weather.get\nAction Input: {ARGS}\n{FENCE}",
    f"> Action: weather.get\n> Action Input: {ARGS}",
    f"For example:\nAction: weather.get\nAction Input: {ARGS}",
)
"""Replies whose only decision stands in thoughts, quotes, code or prose about it; it is never carried out."""
