"""The server: conversations over HTTP, with their events as they happen."""
