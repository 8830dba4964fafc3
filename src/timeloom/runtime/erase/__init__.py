"""Erases entries permanently, with everything derived from them.

Reading order: `erase`, `same_text` (entries that repeat erased text), `file_references` (results that show a file),
`workspace_files`, `side_files` (files beside the store, through the erasers of their owners), `delete_unheld`,
`retention` (deletes old conversations) with `kept` (those that stay).
"""
