"""The HTTP routes.

Reading order: `chat`, `conversations`, `feedback`, `files`, `inspect`, `reruns`, `health`, `web_ui`.
"""
