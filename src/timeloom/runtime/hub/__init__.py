"""Runs many conversations in one process and streams their events.

Reading order: `hub` (the public entry), `state` (states of a conversation and the transitions between them),
`input_queue`, `live_conversation` (carries them out), `incoming` (messages for a running turn), `write_recovery`
(after a full disk), `subscription` (one reader), `store_follower` (entries of other processes), `events`,
`partial_text` (text that is still streaming), `live_citations`.
"""
