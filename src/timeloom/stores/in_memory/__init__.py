"""The in-memory store: `store`, `ledger`, `feedback`."""
