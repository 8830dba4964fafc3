"""Operating-system and asyncio building blocks that are independent of conversations.

`open_beneath` opens files below a root without following links, `tasks` waits for tasks despite cancellation,
`token_bucket` limits rates.
"""
