"""Erase policy: the entries that must be erased together.

Reading order: `provenance` (which entries were derived from which), `written_by_calls`, `spread` (the closure of an
erase request).
"""
