"""SQL of the SQLite store, one module per table or operation.

Reading order: `append_delete`, `read_entries`, `entries_by_type`, `search`, `leases`, `open_turns`, `feedback`,
`spend`, `ledger_sql`, `records`, `chain`, `erase`, `import_rows`, `log_number`.
"""
