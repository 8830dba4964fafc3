"""Runs conversations on the command line.

Reading order: `conversations` (the open conversations of a data folder), `plain` and `plain_output`, `single_turn` (one message a
line, for pipes), `display/` (formatting and printing), `terminal/` (the interactive screen).
"""
