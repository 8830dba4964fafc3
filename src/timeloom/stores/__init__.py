"""Stores: where conversations are kept."""
