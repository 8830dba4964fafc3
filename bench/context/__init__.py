"""What a context costs: recorded sessions through the runtime and through other runtimes' histories, billed alike."""
