"""Renders prompts from the log alone: the same log gives the same bytes.

Reading order: `prompt`, `prompt_parts`, `segments`, `entries/` (blocks as text), `foreign_text/` (escapes), `tail/`
(facts of the round), `system` and `catalogue` (the system text); `summary` and `title` belong to side calls.
"""
