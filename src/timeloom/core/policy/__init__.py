"""Pure decisions over views: the next step of a turn and the steps that policies allow.

Reading order: `next_step`, `read_reply` with its `raw_fields`, `repair_reply` with its `find_candidates` and
`normalise_raw`, `fanout`, `model_retry`, `gates`, `budget`; then what leaves the prompt: `reduction`, `pruning`,
`compaction`; `titling`, `forking` and `forms`. `cache/` places cache points, and `erase/` finds what an erase must
cover.
"""
