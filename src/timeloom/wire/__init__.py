"""Serialization: blocks as JSON, journal records, snapshots and exports."""
