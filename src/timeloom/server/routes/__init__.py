"""The HTTP routes.

Reading order: `chat`, `conversations`, `feedback`, `files`, `search`, `inspect`, `reruns`, `health`, `login`, `web_ui`.
"""
