"""The third edition of what a model reads and writes: the second one with shorter messages, answers and calls.

Reading order: `entries` (the entries that differ), `renderer`.
"""
