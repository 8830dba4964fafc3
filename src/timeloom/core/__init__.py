"""The core: pure values and decisions, without I/O, clock, randomness or logging."""
