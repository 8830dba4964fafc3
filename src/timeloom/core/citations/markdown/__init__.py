"""Finds citation tokens that CommonMark shows as text.

Reading order: `finder`, `blocks` (block structure), `line_markers` (markers of blocks), `inline` (inline structure),
`grammar` and `backticks` (their tokens).
"""
