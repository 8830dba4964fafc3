"""The uncached end of a prompt: `tail` joins `sources_section` and `announce`."""
