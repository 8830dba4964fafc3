"""Ports: the protocols that adapters implement for the runtime."""
