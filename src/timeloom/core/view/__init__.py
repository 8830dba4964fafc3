"""Views: pure folds over the timeline, each updated one entry at a time.

Reading order: `views` (all of them), `progress` (the running turn), `turns`, `turn_index`, `calls`, `repeated_calls`,
`artifacts`, `sources`, `text_origins`, `paths`, `plans`, `spend`, `conversation`, `feedback`, `live_events`, `forms`,
`chronological`, `aliases` (short names of turns and calls); `context/` folds what a prompt shows.
"""
