"""`timeloom model`: `command` holds the sub-commands, `check` runs the conformance suite."""
