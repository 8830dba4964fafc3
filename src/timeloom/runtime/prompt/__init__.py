"""Builds the prompt of a round.

Reading order: `builder`, `request` (its result), `prompt_snapshot`, `hashing`, `payload_cache`, `cache_rates`,
`instructions/` (the system texts).
"""
