"""Contracts, fakes and hypothesis strategies for tests of timeloom and of adapters to it.

Contracts: `store_contract`, `ledger_contract`, `model_contract`, `sandbox_contract`; `conformance` scores models.
Fakes: `ScriptedModel`, `fake_service`, `model_endpoint`. Data: `samples`, `strategies`, `conversations`.
"""

from timeloom.providers.script import ScriptedModel

__all__ = ["ScriptedModel"]
