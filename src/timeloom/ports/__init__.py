"""Ports: the roles that adapters play for the runtime."""
