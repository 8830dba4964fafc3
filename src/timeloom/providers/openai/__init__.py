"""OpenAI-compatible chat completions: `model` (the adapter), `request` (the JSON body), `reply` (the chunk stream)."""
