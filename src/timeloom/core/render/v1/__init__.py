"""The first edition of the rendering, recorded as number 2. It is frozen, because stored logs render with it.

Reading order: `entries/` (blocks as text), `tail/` (facts of the round), `summary` and `call_list` (compaction).
"""
