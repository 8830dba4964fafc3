"""Keeps the prompt inside the model's context window.

Reading order: `fit_window` (applies the reductions that `core.policy.reduction` chooses), `prune` (old turns become
cards), `compact` (a range becomes a summary), `summary_facts` (facts a summary must keep), `read_range` (loads entries
with their payloads).
"""
