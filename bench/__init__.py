"""Benchmarks of the core, the embedded store and the loop, with other runtimes doing the same work beside them."""
