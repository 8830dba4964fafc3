"""`timeloom replay`: `command` checks requests, `cache` prints the cache ledger, `rerun` runs `--from`."""
