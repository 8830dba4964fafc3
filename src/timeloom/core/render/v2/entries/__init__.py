"""The texts of single entries in edition 2.

Reading order: `block_text` (all blocks), `channel_text` (the agent's own words), `call_text` and `status_text` (calls),
`plan_text`, `stubs` (hidden and pruned entries), `shorten`, `cards`.
"""
