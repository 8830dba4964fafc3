"""Builds the prompt of a round.

Reading order: `builder`, `request` (its result), `hashing`, `payload_cache`, `cache_rates`,
`instructions/` (the system texts).
"""
