"""Plans of the agent: snapshots, step marks and changes of their lifecycle.

Reading order: `snapshot`, `changes`, `lifecycle` (new, replace, activate, close), `marks`, `acknowledge`.
"""
