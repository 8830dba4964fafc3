"""The exec tool: programs that the agent writes, run in a sandbox, and the files that they leave."""
