"""The remote supervisor: runs in a task on another machine and talks to its caller through a bucket.

In reading order: `cloud`, `bucket`, `launch_payload`, `snapshot` and `bucket_messages` are used on both sides;
`supervisor`, `descriptor_files`, `tool_loader`, `relay`, `executor`, `init`, `drop_privileges`, `landlock` and
`program_tree` run in the task.
"""
