"""Finds citation tokens that CommonMark shows as text.

Reading order: `finder`, `blocks` (block structure), `inline` (inline structure), `grammar` and `backticks` (their
tokens).
"""
