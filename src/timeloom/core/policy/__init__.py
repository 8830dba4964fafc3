"""Policies: pure decisions over views: what to do next, and what is allowed."""
