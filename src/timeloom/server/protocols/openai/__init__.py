"""OpenAI's chat completions interface."""
