"""Runs a conversation again from an entry and compares the results.

Reading order: `rerun`, `recorded_inputs`, `recorded_tools`, `trajectory`, `compare`.
"""
