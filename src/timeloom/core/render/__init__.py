"""Renders prompts from the log alone: the same log gives the same bytes.

Reading order: `prompt`, `prompt_parts`, `segments`, `entry_text`, `names` (values), `v1/`, `v2/` and `v3/` (the
editions of all texts), `foreign_text/` (escapes) and `copied_text` (their inverse), `system` and `catalogue` (the
system text); `title` belongs to side calls.
"""
