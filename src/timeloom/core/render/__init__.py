"""Rendering: what the model is shown, made from the log alone; same log, same bytes."""
