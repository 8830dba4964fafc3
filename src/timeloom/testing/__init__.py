"""Contracts, fakes and hypothesis strategies for tests of timeloom and of adapters to it.

Contracts: `store_contract`, `ledger_contract`, `records_contract`, `model_contract`, `sandbox_contract`. `conformance`
scores models.
Fakes: `ScriptedModel` with its `replies`, `recorded_replies`, `native_model`, `fixed_clock`, `counting_ids`,
`fake_service`, `model_endpoint`. Data: `samples`, `strategies`, `conversations`.
The names in `__all__` are public. The contracts are imported when they are first used.
"""

from typing import TYPE_CHECKING

from timeloom.providers.script import ScriptedModel, Step
from timeloom.testing.counting_ids import CountingIds
from timeloom.testing.fixed_clock import FixedClock
from timeloom.testing.replies import call, cut, fails, malformed, says, several

if TYPE_CHECKING:
    from timeloom.testing.ledger_contract import DURABLE_LEDGER_CONTRACT, LEDGER_CONTRACT
    from timeloom.testing.model_contract import HTTP_CONTRACT, MODEL_CONTRACT, HttpHarness, over_http, over_script
    from timeloom.testing.native_model import NativeScriptedModel
    from timeloom.testing.recorded_replies import recorded_replies
    from timeloom.testing.records_contract import DURABLE_RECORDS_CONTRACT, RECORDS_CONTRACT
    from timeloom.testing.sandbox_contract import SANDBOX_CONTRACT
    from timeloom.testing.store_contract import DURABLE_CONTRACT, STORE_CONTRACT

_MODULE_OF = {
    "DURABLE_CONTRACT": "store_contract",
    "DURABLE_LEDGER_CONTRACT": "ledger_contract",
    "DURABLE_RECORDS_CONTRACT": "records_contract",
    "HTTP_CONTRACT": "model_contract",
    "HttpHarness": "model_contract",
    "LEDGER_CONTRACT": "ledger_contract",
    "MODEL_CONTRACT": "model_contract",
    "NativeScriptedModel": "native_model",
    "RECORDS_CONTRACT": "records_contract",
    "SANDBOX_CONTRACT": "sandbox_contract",
    "STORE_CONTRACT": "store_contract",
    "over_http": "model_contract",
    "over_script": "model_contract",
    "recorded_replies": "recorded_replies",
}

__all__ = [
    "DURABLE_CONTRACT",
    "DURABLE_LEDGER_CONTRACT",
    "DURABLE_RECORDS_CONTRACT",
    "HTTP_CONTRACT",
    "LEDGER_CONTRACT",
    "MODEL_CONTRACT",
    "RECORDS_CONTRACT",
    "SANDBOX_CONTRACT",
    "STORE_CONTRACT",
    "CountingIds",
    "FixedClock",
    "HttpHarness",
    "NativeScriptedModel",
    "ScriptedModel",
    "Step",
    "call",
    "cut",
    "fails",
    "malformed",
    "over_http",
    "over_script",
    "recorded_replies",
    "says",
    "several",
]


def __getattr__(name: str) -> object:
    """Import a contract when it is first used (PEP 562): a test of an agent needs none."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'timeloom.testing' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only contracts need it

    value = getattr(import_module(f"timeloom.testing.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
