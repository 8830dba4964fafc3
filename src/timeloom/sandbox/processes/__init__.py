"""Process accounting on Linux: `procfs`, `process_tree`, `cpu_time`, `unlinked_files`, `cgroup`."""
