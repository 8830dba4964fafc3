"""Runs conversations over ports: sessions, turns, prompts, model calls, forks, re-runs, archives and erasure."""
