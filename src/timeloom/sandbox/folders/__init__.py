"""Folders of an execution: `run_folder` creates them, `disk_usage` measures them, `remove_tree` removes them."""
