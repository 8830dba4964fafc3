"""The command line: one module per command."""

from timeloom.cli.main import main

__all__ = ["main"]
