"""The terminal: a conversation as a person sees and types it."""
