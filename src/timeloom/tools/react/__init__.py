"""The react tools: read, write, search, plan and hide on the conversation's timeline and files.

Reading order:

- `toolset`: all react tools, ready for a registry.
- `read`, `resolve`, `windows`: `react.read`, path resolution and the part of a text that is shown.
- `rg`, `grep`, `grep_worker`: `react.rg` and the child process that searches.
- `write`, `patch`, `undo`: `react.write`, `react.patch` and the undo record of a patch.
- `pull`, `checkout`, `select_files`: copy files of earlier turns.
- `plan`, `hide`: `react.plan` and `react.hide`.
- `form`: `react.form`, which an agent has only if it is given to it.
- `compact`, `pin`: `react.compact` and `react.pin`, which the next version of the system texts explains.
"""
