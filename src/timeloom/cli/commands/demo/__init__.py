"""`timeloom demo`: `command` runs it, `script` holds the conversation it writes."""
