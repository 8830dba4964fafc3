"""The second edition of what a model reads and writes, recorded as number 3. It is frozen: logs have it."""
