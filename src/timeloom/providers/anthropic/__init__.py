"""Anthropic's messages API: `model` (the adapter), `request` (the JSON body), `reply` (the event stream)."""
