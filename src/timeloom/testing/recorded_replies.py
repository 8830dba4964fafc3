"""Reads the replies of a recorded conversation, so that a test can run an agent on them again."""

from typing import Final

from timeloom.core.blocks import AnyBlock, ModelAnswered
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.payload import Text
from timeloom.core.policy.model_retry import RETRIED_ERRORS
from timeloom.ports.store import Store
from timeloom.providers.script_file import Step, StepError

PAGE: Final = 1000
"""Entries per read of the store."""

REPLAYED_PURPOSES: Final[tuple[CallPurpose, ...]] = ("decision", "compaction")
"""An agent asks for no titles; a server does."""

_SAME_ERROR: Final[dict[str, StepError]] = {
    "overloaded": "overloaded",
    "context_too_long": "context_too_long",
    "timeout": "timeout",
    "cut": "cut",
}


async def recorded_replies(store: Store, conversation: str) -> list[Step]:
    """Return the steps of a script that answers as the model of this conversation did, failed calls included.

    Raises `script_malformed` for calls that a script cannot repeat: with native tool calling, or stopped by a person.
    """
    info = await store.info(ConversationId(conversation))
    steps: list[Step] = []
    after = 0
    while entries := await store.load(info.id, after, PAGE):
        outcomes = [entry.block for entry in entries if _is_replayed(entry.block)]
        steps += [await _to_step(store, info.tenant, one) for one in outcomes if isinstance(one, ModelAnswered)]
        after = entries[-1].seq
    return steps


def _is_replayed(block: AnyBlock) -> bool:
    return isinstance(block, ModelAnswered) and block.purpose in REPLAYED_PURPOSES


async def _to_step(store: Store, tenant: str, outcome: ModelAnswered) -> Step:
    if outcome.tool_calls:
        raise CodedError("script_malformed", f"{_describe(outcome)} has native tool calls; a script has channels")
    if outcome.error and outcome.error not in RETRIED_ERRORS and outcome.error not in _SAME_ERROR:
        raise CodedError(
            "script_malformed", f"{_describe(outcome)} ended as {outcome.error}; a script cannot repeat it"
        )
    # To the agent all errors that it retries are alike.
    error = _SAME_ERROR.get(outcome.error, "overloaded") if outcome.error else None
    text = await _read(store, tenant, outcome.text)
    return Step(reply=text, when=outcome.purpose, usage=outcome.usage, error=error)


def _describe(outcome: ModelAnswered) -> str:
    return f"the reply of {outcome.model} in round {outcome.round}"


async def _read(store: Store, tenant: str, text: Text) -> str:
    return text if isinstance(text, str) else (await store.read_blob(tenant, text)).decode("utf-8", "surrogatepass")
