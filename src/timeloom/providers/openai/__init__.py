"""OpenAI-compatible chat completions: `model`, `request` (the JSON body), `content` (its message), `reply` (chunks).

`quirks` describes how services differ.
"""
