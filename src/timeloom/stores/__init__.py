"""Stores that keep conversations: in memory, in SQLite, or in memory on top of another store.

`open_store` opens a store by its address.
`sqlite/` and `in_memory/` hold the two stores. `overlay` keeps new conversations in memory on top of another store,
and `overlay_records` does so with records.
Shared by both, in reading order: `batch`, `erasure`, `import_batch`, `feedback_rows`, `spend_rows`, `search_terms`,
`followers`, `budget_rule` and `ledger`. Files on disk: `disk`, `blob_folder`, `snapshot_folder`, `head_folder`,
`signing` with its `ed25519`, `process_locks`.
"""
