"""Runtime: what is done with conversations, over ports."""
