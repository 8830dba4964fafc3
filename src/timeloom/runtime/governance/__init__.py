"""Checks policies and budgets before a step and records its cost: `governor`, `costs`, `interrupted_calls`."""
