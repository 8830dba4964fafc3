"""Formats conversations for a terminal.

Reading order: `turn_display` (one turn, live and printed), `reply` and `answer` (streamed text), `running_call`,
`transcript` (printed output), `render` and `markdown_blocks` (Markdown to terminal text), `labels`, `format` and
`block_summary` (short texts).
"""
