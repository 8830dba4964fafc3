"""Captures the requests of other runtimes' message histories in the benchmark-only environment.

It runs as a program, reads one job as JSON from standard input and prints one answer as JSON. The answer contains the
bodies that the runtime makes of its message objects, captured before they leave the process. A message in many bodies
is printed once. Modules are imported by name because no other environment has them.
"""

import asyncio
import importlib
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

Foreign = Any
"""A value of another runtime, whose types are not available to the type checker."""

Body = dict[str, Any]

_REPLY: Body = {
    "id": "reply",
    "object": "chat.completion",
    "created": 0,
    "model": "bench",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_URL = "http://bench.invalid/v1"


def main() -> None:
    """Execute the job on standard input."""
    job = json.load(sys.stdin)
    catch = BodyCapture()
    asyncio.run(SIDES[job["side"]](job, catch))
    json.dump({"bodies": catch.bodies, "texts": catch.texts}, sys.stdout)


class BodyCapture:
    """Captures request bodies; each is a list of text numbers: the tools, then one message after another."""

    def __init__(self) -> None:
        self.bodies: list[list[int]] = []
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def client(self) -> Foreign:
        """Return an HTTP client that sends nothing and always gets an answer."""
        httpx: Foreign = importlib.import_module("httpx")

        def answer(request: Foreign) -> Foreign:
            self._add_body(json.loads(request.content))
            return httpx.Response(200, json=_REPLY)

        return httpx.AsyncClient(transport=httpx.MockTransport(answer))

    def _add_body(self, body: Body) -> None:
        parts = [body.get("tools", []), *body["messages"]]
        self.bodies.append([self._number(json.dumps(part, ensure_ascii=False)) for part in parts])

    def _number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


async def send_langgraph(job: Body, catch: BodyCapture) -> None:
    """Send the list of messages that a graph keeps through LangChain's model."""
    messages: Foreign = importlib.import_module("langchain_core.messages")
    chat: Foreign = importlib.import_module("langchain_openai")
    model = chat.ChatOpenAI(
        model="bench", base_url=_URL, api_key="none", max_retries=0, http_async_client=catch.client()
    ).bind_tools([_function(tool) for tool in job["tools"]])
    system = messages.SystemMessage(job["instructions"])
    count = _ApproximateCounter(job["chars_per_token"])
    history: list[Foreign] = []

    async def ask() -> None:
        shown = [system, *history]
        if job["trim_tokens"]:
            shown = messages.trim_messages(
                shown,
                max_tokens=job["trim_tokens"],
                token_counter=count.messages,
                strategy="last",
                start_on=("human", "ai"),
                include_system=True,
            )
        await model.ainvoke(shown)

    def add_user_message(text: str) -> None:
        history.append(messages.HumanMessage(text))

    def add_reply(one: Body) -> None:
        calls = [{"name": call["tool"], "args": call["params"], "id": call["call_id"]} for call in one["calls"]]
        history.append(messages.AIMessage(one["text"], tool_calls=calls))
        for call in one["calls"]:
            status = "error" if call["failed"] else "success"
            history.append(messages.ToolMessage(call["result"], tool_call_id=call["call_id"], status=status))

    await _play(job, ask, add_user_message, add_reply, history.clear)


async def send_agents(job: Body, catch: BodyCapture) -> None:
    """Send the items of an OpenAI Agents SDK session through its chat completions model."""
    agents: Foreign = importlib.import_module("agents")
    openai: Foreign = importlib.import_module("openai")
    interface: Foreign = importlib.import_module("agents.models.interface")
    client = openai.AsyncOpenAI(base_url=_URL, api_key="none", max_retries=0, http_client=catch.client())
    model = agents.OpenAIChatCompletionsModel(model="bench", openai_client=client)
    agents.set_tracing_disabled(True)
    tools = [
        agents.FunctionTool(
            name=tool["name"],
            description=tool["description"],
            params_json_schema=json.loads(tool["params_schema"]),
            on_invoke_tool=_never,
            strict_json_schema=False,
        )
        for tool in job["tools"]
    ]
    items: list[Body] = []

    async def ask() -> None:
        await model.get_response(
            job["instructions"],
            list(items),
            agents.ModelSettings(),
            tools,
            None,
            [],
            interface.ModelTracing.DISABLED,
        )

    def add_user_message(text: str) -> None:
        items.append({"role": "user", "content": text})

    def add_reply(one: Body) -> None:
        if one["text"]:
            items.append({"role": "assistant", "content": one["text"]})
        for call in one["calls"]:
            arguments = json.dumps(call["params"], ensure_ascii=False)
            named = {"name": call["tool"], "arguments": arguments, "call_id": call["call_id"]}
            items.append({"type": "function_call", **named})
        items.extend(
            {"type": "function_call_output", "call_id": call["call_id"], "output": call["result"]}
            for call in one["calls"]
        )

    await _play(job, ask, add_user_message, add_reply, items.clear)


async def send_pydantic(job: Body, catch: BodyCapture) -> None:
    """Send the messages that Pydantic AI keeps through its chat completions model."""
    direct: Foreign = importlib.import_module("pydantic_ai.direct")
    known: Foreign = importlib.import_module("pydantic_ai.messages")
    models: Foreign = importlib.import_module("pydantic_ai.models")
    chat: Foreign = importlib.import_module("pydantic_ai.models.openai")
    providers: Foreign = importlib.import_module("pydantic_ai.providers.openai")
    tools: Foreign = importlib.import_module("pydantic_ai.tools")
    provider = providers.OpenAIProvider(base_url=_URL, api_key="none", http_client=catch.client())
    model = chat.OpenAIChatModel("bench", provider=provider)
    offered = [
        tools.ToolDefinition(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=json.loads(tool["params_schema"]),
            strict=False,
        )
        for tool in job["tools"]
    ]
    parameters = models.ModelRequestParameters(function_tools=offered)
    history: list[Foreign] = []

    async def ask() -> None:
        await direct.model_request(model, list(history), model_request_parameters=parameters)

    def add_request_parts(parts: list[Foreign]) -> None:
        # The parts between two replies are one message, as its agent makes it.
        if history and isinstance(history[-1], known.ModelRequest):
            parts = [*history.pop().parts, *parts]
        history.append(known.ModelRequest(parts=parts, instructions=job["instructions"]))

    def add_user_message(text: str) -> None:
        add_request_parts([known.UserPromptPart(text)])

    def add_reply(one: Body) -> None:
        parts = [known.TextPart(one["text"])] if one["text"] else []
        parts += [known.ToolCallPart(call["tool"], call["params"], call["call_id"]) for call in one["calls"]]
        history.append(known.ModelResponse(parts=parts))
        if one["calls"]:
            add_request_parts(
                [known.ToolReturnPart(call["tool"], call["result"], call["call_id"]) for call in one["calls"]]
            )

    await _play(job, ask, add_user_message, add_reply, history.clear)


async def _play(
    job: Body,
    ask: Callable[[], Awaitable[None]],
    add_user_message: Callable[[str], None],
    add_reply: Callable[[Body], None],
    forget: Callable[[], None],
) -> None:
    """Send every request of the trace with its history; a summary starts a new history."""
    for one in job["asks"]:
        if one["summary"] and not job["trim_tokens"]:
            forget()
            add_user_message(one["summary"])
        for text in one["said"]:
            add_user_message(text)
        await ask()
        add_reply(one)


class _ApproximateCounter:
    """Counts tokens by characters, like LangChain's approximate counter, at the trace's rate."""

    def __init__(self, chars_per_token: float) -> None:
        self._chars_per_token = chars_per_token

    def messages(self, messages: list[Foreign]) -> int:
        calls = [call for one in messages for call in getattr(one, "tool_calls", ())]
        chars = sum(len(one.content) for one in messages) + sum(len(str(call)) for call in calls)
        return round(chars / self._chars_per_token)


def _function(tool: Body) -> Body:
    parameters = json.loads(tool["params_schema"])
    described = {"name": tool["name"], "description": tool["description"], "parameters": parameters}
    return {"type": "function", "function": described}


async def _never(_context: Foreign, _arguments: str) -> str:
    raise AssertionError("recorded results stand in the history; no tool runs")


SIDES: dict[str, Callable[[Body, BodyCapture], Coroutine[Any, Any, None]]] = {
    "langgraph": send_langgraph,
    "agents": send_agents,
    "pydantic": send_pydantic,
}

if __name__ == "__main__":
    main()
