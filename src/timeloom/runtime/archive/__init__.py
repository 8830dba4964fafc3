"""Moves conversations between data folders, with their hashes, payloads and files.

Reading order: `tar_members` (the strict tar form), `write_archive`, `read_archive` (checks everything),
`read_exports` (exports as JSON), `import_conversations` (stores what was checked).
"""
