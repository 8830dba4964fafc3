"""Runs untrusted programs in isolation: local (bubblewrap), Docker containers or AWS Fargate tasks.

One sub-package per backend: `local`, `docker`, `fargate` with `remote` in its tasks. `guest` runs inside a sandbox.

Shared by the backends, in reading order: `protocol` and `broker_socket` connect a program to its broker, `warm_pool`
and `shutdown` manage workers, `watchdog`, `captured_output`, `readable` and `exit_status` follow a run, `seccomp`
builds the filter, `unused_uid` chooses the host user. `folders` and `processes` measure disk space and processes.
"""
