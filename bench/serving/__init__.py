"""Benchmarks of the server: real processes on loopback, and a load generator in a separate process."""
