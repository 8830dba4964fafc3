"""Benchmarks of context cost: recorded sessions through timeloom and other runtimes, billed alike."""
