"""Read models for people.

Reading order: `export`, `export_chronological`, `search`, `turn_overview`, `files` (downloads), `otel_spans`.
"""
