"""The web tools: `search` and `fetch`; `merge` ranks results, and `sources` adds rows to the pool."""
