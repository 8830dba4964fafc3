"""Benchmarks of the core, the embedded store, the loop and the server, compared with other runtimes."""
