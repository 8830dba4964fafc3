"""Renders prompts from the log alone: the same log gives the same bytes."""
