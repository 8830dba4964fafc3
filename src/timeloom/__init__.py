"""timeloom: a timeline-first ReAct agent runtime.

The names in `__all__` are the public API. Each is imported when it is first used, so `import timeloom` stays cheap.
"""

import sys

# The constant of `typing`, without importing it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from timeloom.agent.agent import Agent
    from timeloom.agent.answer import Answer, Approval
    from timeloom.agent.run import Approver, Run
    from timeloom.agent.workflow.base import BaseWorkflow
    from timeloom.agent.workflow.payload import Payload
    from timeloom.bundles.bundle import Bundle
    from timeloom.config.settings import Settings
    from timeloom.core.policy.budget import Allowance, Budgets
    from timeloom.core.policy.gates import DEFAULT_POLICIES, Policy, ask_before, only_tools, refuse
    from timeloom.core.timeline import Entry
    from timeloom.ports.model import Model
    from timeloom.ports.store import Store
    from timeloom.ports.tool import Tool, ToolCallError, ToolContext
    from timeloom.providers.registry import open_model, register_provider
    from timeloom.stores.open_store import open_store
    from timeloom.tools.define import tool

__version__ = "0.1.0"

PLATFORMS = "timeloom runs on Linux and macOS; on Windows, install and run it inside WSL"


def check_platform(platform: str) -> None:
    """Raise `ImportError` if this value of `sys.platform` is Windows."""
    if platform in ("win32", "cygwin", "msys"):
        raise ImportError(f"{PLATFORMS} (this Python reports the platform {platform!r})")


check_platform(sys.platform)

_MODULE_OF = {
    "Agent": "timeloom.agent.agent",
    "Allowance": "timeloom.core.policy.budget",
    "Answer": "timeloom.agent.answer",
    "Approval": "timeloom.agent.answer",
    "Approver": "timeloom.agent.run",
    "BaseWorkflow": "timeloom.agent.workflow.base",
    "Budgets": "timeloom.core.policy.budget",
    "Bundle": "timeloom.bundles.bundle",
    "DEFAULT_POLICIES": "timeloom.core.policy.gates",
    "Entry": "timeloom.core.timeline",
    "Model": "timeloom.ports.model",
    "Payload": "timeloom.agent.workflow.payload",
    "Policy": "timeloom.core.policy.gates",
    "Run": "timeloom.agent.run",
    "Settings": "timeloom.config.settings",
    "Store": "timeloom.ports.store",
    "Tool": "timeloom.ports.tool",
    "ToolCallError": "timeloom.ports.tool",
    "ToolContext": "timeloom.ports.tool",
    "ask_before": "timeloom.core.policy.gates",
    "only_tools": "timeloom.core.policy.gates",
    "open_model": "timeloom.providers.registry",
    "open_store": "timeloom.stores.open_store",
    "register_provider": "timeloom.providers.registry",
    "refuse": "timeloom.core.policy.gates",
    "tool": "timeloom.tools.define",
}

__all__ = [
    "DEFAULT_POLICIES",
    "Agent",
    "Allowance",
    "Answer",
    "Approval",
    "Approver",
    "BaseWorkflow",
    "Budgets",
    "Bundle",
    "Entry",
    "Model",
    "Payload",
    "Policy",
    "Run",
    "Settings",
    "Store",
    "Tool",
    "ToolCallError",
    "ToolContext",
    "ask_before",
    "only_tools",
    "open_model",
    "open_store",
    "refuse",
    "register_provider",
    "tool",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'timeloom' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - `import timeloom` loads nothing else

    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
