"""The public agent: `agent`, `run` (a turn while it runs), `answer` (its result) and `agent_parts` (its open parts)."""
