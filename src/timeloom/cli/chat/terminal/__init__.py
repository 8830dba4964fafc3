"""Runs a conversation on an interactive terminal.

Reading order: `chat_loop` (input and turns), `state` (shared state), `screen` (input line and live area),
`slash_commands`, `attach`, `approvals` and `approval_prompt`.
"""
