"""The in-memory store, for tests and trials. Reading order: `store`, `ledger`, `records`, `feedback`."""
