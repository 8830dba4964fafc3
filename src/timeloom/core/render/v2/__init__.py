"""The second edition of all texts that a prompt contains."""
