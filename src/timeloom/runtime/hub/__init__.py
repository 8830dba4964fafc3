"""Runs many conversations in one process and streams their events.

Reading order: `hub` (the public entry), `state` (states of a conversation and the transitions between them),
`input_queue`, `live_conversation` (carries them out), `write_recovery` (after a full disk), `subscription`
(one reader), `events`, `partial_text` (text that is still streaming), `live_citations`.
"""
