"""Runs many conversations in one process and streams their events.

Reading order: `hub` (the public entry), `live_conversation` (one open conversation), `subscription` (one reader),
`events`, `partial_text` (text that is still streaming), `live_citations`.
"""
