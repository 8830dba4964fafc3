"""Builds the prompt of a round.

Reading order: `builder`, `request` (its result), `prompt_snapshot`, `hashing`, `payload_cache`, `cache_rates`,
`system_text` with `own_instructions`, `recorded_instructions` (those of a turn), `instructions/` (the texts).
"""
