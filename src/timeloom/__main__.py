"""`python -m timeloom` is the `timeloom` command."""

from timeloom.cli import main

main()
