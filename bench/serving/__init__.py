"""The server under load: real processes on loopback, and a crowd of clients in a process of its own."""
