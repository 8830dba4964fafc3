"""The composition root: a conversation with everything it needs to run turns."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId, make_conversation_id
from timeloom.core.policy.next_step import Limits
from timeloom.core.render.previews import shown_text
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.ids import Ids, RandomIds
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.runtime.act import Workshop
from timeloom.runtime.ask_model import Asking, LiveDelta
from timeloom.runtime.inbox import Inbox
from timeloom.runtime.prompting import ConversationPrompter, PromptSettings
from timeloom.runtime.session import Session
from timeloom.runtime.turn import Turns
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how conversations are held."""

    data_dir: Path
    limits: Limits = Limits()
    instructions: str = ""


async def open_session(
    store: Store,
    conversation: ConversationId | None,
    header: ConversationStarted,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> Session:
    """The session of that conversation, or of a new one that begins with the header."""
    clock, ids = clock or SystemClock(), ids or RandomIds()
    if conversation is not None:
        return await Session.resume(store, conversation, clock, ids)
    fresh = make_conversation_id(clock.epoch_us() // 1000, ids.bits())
    return await Session.start(store, fresh, header, clock, ids)


def make_turns(
    session: Session,
    model: Model,
    setting: Setting,
    on_delta: Callable[[LiveDelta], None],
    registry: ToolRegistry | None = None,
) -> Turns:
    """What runs the session's turns with that model; without a registry, with the react tools."""
    registry = registry or ToolRegistry(react_tools())
    prompts = PromptSettings(
        limits=setting.limits, window_tokens=model.window_tokens, instructions=setting.instructions
    )
    inbox = Inbox(session)
    out_dir = setting.data_dir / "workspaces" / session.conversation
    out_dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    out_dir.mkdir(mode=0o700, exist_ok=True)
    workshop = Workshop(
        session=session,
        registry=registry,
        show=shown_text,
        out_dir=out_dir,
        emit=lambda channel, text: on_delta(LiveDelta(channel, 0, text)),
        interrupt=inbox.interrupt,
    )
    prompter = ConversationPrompter(session, registry.specs(), prompts)
    asking = Asking(session=session, model=model, prompter=prompter, on_delta=on_delta)
    return Turns(session=session, asking=asking, workshop=workshop, inbox=inbox, limits=setting.limits)
