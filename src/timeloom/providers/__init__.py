"""Adapters for model services and scripted models.

Reading order: `registry` (opens a model by name), `presets` (services by prefix), `anthropic/` and `openai/`,
`streaming_request` (one request and its event stream), `http/`, `sse`, `decode`, `errors`, `read_timeout`, `prices`,
`settings`, `script` and `script_file`.
"""
