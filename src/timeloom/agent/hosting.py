"""The parts of an agent while it is open, and the hosts that serve it, such as an application on the web."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from timeloom.agent.conversation_factory import ConversationFactory
from timeloom.app import AgentSettings, ModelPool, SideModels
from timeloom.config.settings import Settings
from timeloom.ports.model import Model
from timeloom.ports.store import Store
from timeloom.runtime.hub.hub import Hub
from timeloom.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAgent:
    """The parts of an agent while it is open."""

    hub: Hub
    store: Store
    factory: ConversationFactory
    model: Model
    side_models: SideModels
    models: ModelPool
    tools: ToolRegistry
    settings: Settings
    agent_settings: AgentSettings

    @property
    def workspaces(self) -> Path:
        """The folder that contains one folder of files per conversation."""
        return self.agent_settings.workspaces


AgentHost = Callable[[OpenAgent], AbstractAsyncContextManager[None]]
"""Serves an agent while the context that it returns is open."""
