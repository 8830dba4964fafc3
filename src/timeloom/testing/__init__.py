"""Contracts, fakes and hypothesis strategies for tests of timeloom and of adapters to it.

Contracts: `store_contract`, `ledger_contract`, `records_contract`, `model_contract`, `sandbox_contract`. `conformance`
scores models.
Fakes: `ScriptedModel` with its `replies`, `fake_service`, `model_endpoint`. Data: `samples`, `strategies`,
`conversations`.
"""

from timeloom.providers.script import ScriptedModel
from timeloom.testing.replies import call, malformed, says, several

__all__ = ["ScriptedModel", "call", "malformed", "says", "several"]
