"""Runs the `timeloom` command as `python -m timeloom`."""

from timeloom.cli import main

main()
