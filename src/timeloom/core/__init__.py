"""Pure values and decisions: the core has no I/O, no clock, no randomness and no logging."""
