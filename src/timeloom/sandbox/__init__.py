"""Sandboxes: places where a program that nobody trusts runs, and can do its work and nothing else."""
