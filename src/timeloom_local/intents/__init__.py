"""Parses a message into intents: strict rules for a few operations; every other message is declined.

Reading order: `kinds` (the intents), `wording` (politeness, language), `typing_errors`, `references`,
`file_mentions`, `split_file`, `content` (the text to write), `edits`, `expressions`, `calculations`, `questions`,
`parse_writes`, `parse_changes`, `parse_reads`, `parse_clause` (one intent) and `parse_message` (all of them).
"""
