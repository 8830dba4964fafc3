"""The chat completions API of OpenAI: `routes`, `schema` (its types), `stream` (completions from a turn's events)."""
