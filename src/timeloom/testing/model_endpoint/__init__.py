"""Serves any model over HTTP as an Anthropic or OpenAI endpoint.

Reading order: `app`, `dialect`, `anthropic`, `openai`, `tool_uses`.
"""
