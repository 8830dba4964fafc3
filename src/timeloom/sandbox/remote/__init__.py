"""The remote supervisor: what runs in a task on another machine, and the forms in which it and its caller speak."""
