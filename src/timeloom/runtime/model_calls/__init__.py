"""Calls models: `stream_reply` (one streamed reply), `side_call` (titles and summaries)."""
