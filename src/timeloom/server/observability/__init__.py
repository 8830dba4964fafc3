"""Metrics, logs and telemetry of the server."""
