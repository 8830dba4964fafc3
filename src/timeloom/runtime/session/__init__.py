"""The session: the only writer of a conversation.

Reading order: `session`, `load_views`, `resume` (open a stored conversation), `lineage` (parent conversations).
"""
