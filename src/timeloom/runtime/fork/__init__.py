"""Copies a conversation up to an entry.

Reading order: `fork`, `copy_files` (its workspace), `shared_entries` (conversations that share entries).
"""
