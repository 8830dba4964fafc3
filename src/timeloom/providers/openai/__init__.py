"""OpenAI-compatible chat completions: `model` (the adapter), `request` (the JSON body),
`content` (its user message), `reply` (the chunk stream)."""
