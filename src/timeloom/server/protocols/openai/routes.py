"""OpenAI-compatible chat completions: maps each request to a turn of a stored conversation."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from starlette.responses import Response

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.runtime.hub.state import USER
from timeloom.server.history_match import HistoryMessage, HistoryPosition, quoted_roles, with_history
from timeloom.server.http.problem_json import ErrorFormat, ProblemDetails
from timeloom.server.protocols.openai.schema import (
    MODEL,
    ChatBody,
    ChatCompletion,
    ChatMessage,
    JsonSchemaFormat,
    ModelCard,
    ModelList,
    OpenAiError,
    OpenAiErrorBody,
    ResponseFormat,
)
from timeloom.server.protocols.openai.stream import (
    ChunkEncoder,
    CompletionBuilder,
    CompletionStream,
    history_owner,
)
from timeloom.server.protocols.send_and_stream import SendResult, send_and_stream
from timeloom.server.request_context import RequestContext
from timeloom.tools.output_format import JSON_OBJECT, OutputFormat

PATH_PREFIX: Final = "/v1/"
"""The path prefix of this API; all errors below it, also 404, have the OpenAI format."""

CONVERSATION_HEADER: Final = "x-conversation-id"
METADATA_KEY: Final = "conversation_id"
BUNDLE_KEY: Final = "bundle"

KEPT_HEADERS: Final = ("retry-after", "www-authenticate", "x-should-retry")
"""Headers of an error response that are kept for OpenAI clients."""

ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""OpenAI error types by status. Others are `server_error` from 500 on, else `invalid_request_error`."""


async def list_models(context: RequestContext) -> ModelList:
    """List the models: `timeloom`, and `timeloom/NAME` for each bundle."""
    names = (MODEL, *(f"{MODEL}/{name}" for name in context.services.bundles.names))
    return ModelList(data=tuple(ModelCard(id=name) for name in names))


async def get_model(context: RequestContext) -> ModelCard:
    """Return a model by name."""
    name = context.request.path_params["model"]
    _read_bundle(context, name)
    return ModelCard(id=name)


async def post_completion(context: RequestContext, body: ChatBody) -> ChatCompletion | CompletionStream:
    """Send the last message to the conversation of the earlier ones and return the answer of its turn."""
    _check_supported(body)
    bundle = _choose_bundle(context, body)
    history, message = _split_messages(body.messages)
    output = _output_schema(body.response_format)
    sent = await _send_message(context, body, history, _Message(message, output, bundle))
    context.request.state.accepted = sent.accepted
    asked = (*history, HistoryMessage("user", message))
    owner = history_owner(context, bundle)
    completion = CompletionBuilder(context, sent.accepted, asked, owner=owner, is_structured=bool(output))
    if body.stream:
        wants_usage = bool(body.stream_options and body.stream_options.include_usage)
        return CompletionStream(
            sent.opened, context.services.drain_timeout_s, encoder=ChunkEncoder(completion, wants_usage=wants_usage)
        )
    async with sent.opened as (_, events):
        async for event in events:
            completion.add_event(event)
    return completion.to_completion()


def to_openai_error(problem: Response) -> Response:
    """Convert a problem+json response to an OpenAI error response."""
    details = msgspec.json.decode(problem.body, type=ProblemDetails)
    headers = {name: value for name, value in problem.headers.items() if name in KEPT_HEADERS}
    error = OpenAiError(message=details.detail, type=_error_type(details.status), code=details.code)
    return Response(
        msgspec.json.encode(OpenAiErrorBody(error=error)), details.status, headers, media_type="application/json"
    )


OPENAI_FORMAT: Final = ErrorFormat(
    media_type="application/json", body_type=OpenAiErrorBody, convert=to_openai_error, code_path=("error", "code")
)


def _error_type(status: int) -> str:
    return ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def _read_bundle(context: RequestContext, name: str) -> str:
    """Return the bundle that the name of a model contains; empty for the default."""
    bundles = context.services.bundles.names
    family, _, bundle = name.partition("/")
    if family != MODEL or (bundle and bundle not in bundles) or (not bundle and name != MODEL):
        known = ", ".join(repr(one) for one in (MODEL, *(f"{MODEL}/{one}" for one in bundles)))
        are = "the models are" if bundles else "the only model is"
        raise CodedError("model_unknown", f"{are} {known}, got {name[:60]!r}")
    return bundle


def _choose_bundle(context: RequestContext, body: ChatBody) -> str:
    """Return the bundle that the metadata or the name of the model choose; empty for the default."""
    return (body.metadata or {}).get(BUNDLE_KEY, "") or _read_bundle(context, body.model)


def _check_supported(body: ChatBody) -> None:
    if body.tools or body.functions:
        raise CodedError("request_malformed", "tools must be empty; the agent uses only its configured tools")
    if body.n not in (None, 1):
        raise CodedError("request_malformed", "n must be 1")


class _Message(NamedTuple):
    """The text of the message, the JSON schema of its answer, and the bundle of a new conversation."""

    text: str
    output: str
    bundle: str


def _output_schema(form: ResponseFormat | None) -> str:
    """Return the JSON schema of the answer; empty for plain text."""
    match form:
        case None | ResponseFormat(type="text"):
            return ""
        case ResponseFormat(type="json_object"):
            return JSON_OBJECT.schema
        case ResponseFormat(type="json_schema", json_schema=JsonSchemaFormat(schema=dict() as schema) as given):
            whole = msgspec.json.decode(msgspec.json.encode(schema), type=dict[str, object])
            return OutputFormat.from_schema(whole, given.description or "").schema
        case ResponseFormat(type="json_schema"):
            raise CodedError("request_malformed", "response_format needs json_schema with a schema")
        case _:
            expected = "text, json_object or json_schema"
            raise CodedError("request_malformed", f"response_format must be {expected}, got {form.type[:40]!r}")


def _split_messages(messages: Sequence[ChatMessage]) -> tuple[tuple[HistoryMessage, ...], str]:
    """Return the earlier messages and the text of the last one."""
    *earlier, last = messages
    if last.role != "user" or not (message := _text(last)).strip():
        raise CodedError("request_malformed", "the last message must have the role user and a text")
    return tuple(HistoryMessage(one.role, _text(one)) for one in earlier), message


def _text(message: ChatMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type != "text":
            raise CodedError("request_malformed", f"only text parts are supported, got type {part.type[:40]!r}")
    return "".join(part.text for part in message.content)


async def _send_message(
    context: RequestContext, body: ChatBody, history: tuple[HistoryMessage, ...], message: _Message
) -> SendResult:
    hub = context.services.hub
    conversation_name = context.request.headers.get(CONVERSATION_HEADER) or (body.metadata or {}).get(METADATA_KEY, "")
    if conversation_name:
        info = await context.require_conversation(conversation_name)
        context.check_bundle(info, message.bundle)
        return await _send_to(context, info.id, message, context.author_in(info))
    histories, owner = context.services.histories, history_owner(context, message.bundle)
    if (position := histories.pop(owner, history)) and await _is_current(context, position):
        try:
            return await _send_to(context, position.conversation, message)
        except BaseException:
            # The message was not sent, so a retry must find the same conversation again.
            histories.remember(owner, history, position)
            raise
    header = await context.start_header(message.bundle)
    conversation = (await hub.create_empty(header)).id
    whole = message._replace(text=with_history(history, message.text))
    return await _send_to(context, conversation, whole, quoted=quoted_roles(history))


async def _send_to(
    context: RequestContext,
    conversation: ConversationId,
    message: _Message,
    author: str = USER,
    quoted: tuple[str, ...] = (),
) -> SendResult:
    return await send_and_stream(
        context.services,
        conversation,
        lambda: context.services.hub.send_message(
            conversation, message.text, author=author, quoted_roles=quoted, output=message.output
        ),
    )


async def _is_current(context: RequestContext, position: HistoryPosition) -> bool:
    """Whether the conversation still exists for this principal and has no later turn."""
    try:
        info = await context.require_conversation(position.conversation)
        return (await context.services.hub.status(info.id)).turn_id == position.turn
    except CodedError:
        return False
