"""Runs conversations on the command line.

Reading order: `conversations` (the open conversations of a data folder), `plain` and `plain_output` (one message a
line, for pipes), `single_turn` (one message of `-p`), `display/` (formatting and printing), `terminal/` (the
interactive screen).
"""
