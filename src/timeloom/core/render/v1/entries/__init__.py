"""Rendering of timeline entries.

Reading order: `block_text` (one entry), `call_text`, `plan_text`, `previews`, `shorten` (head and tail), `cards`
(pruned turns), `stubs` (hidden, pruned and summarised entries).
"""
