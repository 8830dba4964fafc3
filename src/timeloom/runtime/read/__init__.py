"""Read models for people.

Reading order: `export`, `export_chronological`, `search`, `open_turn`, `turn_overview`, `files` (downloads),
`otel_spans`, `check_heads`.
"""
