"""Keeps the prompt inside the model's context window.

Reading order: `fit_window` (chooses the reduction), `prune` (old turns become cards), `compact` (a range becomes a
summary), `summary_facts` (facts a summary must keep), `read_range` (loads entries with their payloads).
"""
