"""Erase policy: which entries must go together.

Reading order: `provenance` (which entries were made from which), `written_by_calls`, `spread` (the closure of an
erase request).
"""
