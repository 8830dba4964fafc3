"""`timeloom demo`: `command` runs it, `script` contains the conversation that it writes."""
