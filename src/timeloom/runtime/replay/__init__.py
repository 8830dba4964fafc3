"""Verifies a stored conversation.

Reading order: `replay` (rebuilds every request and compares hashes), `walk`, `bad_entries`, `cache_ledger` (expected
against reported cache use), `check_retrievable` (everything hidden can be read again).
"""
