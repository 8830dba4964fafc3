"""The `timeloom` command line.

Reading order: `main` (the table of commands), `entry_point` (closed streams and system errors), `options` (settings as
options), `command` (stores and errors), `signals`, `sanitize` (untrusted text), `commands/`, `chat/`.
"""

from timeloom.cli.main import main

__all__ = ["main"]
