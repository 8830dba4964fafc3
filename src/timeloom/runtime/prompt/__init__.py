"""Builds the prompt of a round.

Reading order: `builder`, `payload_cache`, `cache_rates`, `instructions/` (the system texts).
"""
