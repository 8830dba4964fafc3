"""Testing: contracts, builders and strategies that ship with the package."""

from timeloom.providers.script import ScriptedModel

__all__ = ["ScriptedModel"]
