"""Settings: one typed table, filled from the command line, variables, a file and defaults."""
