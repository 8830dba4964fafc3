"""The HTTP routes.

Reading order: `chat`, `approvals`, `conversations`, `feedback`, `files`, `search`, `inspect`, `reruns`, `health`,
`login`, `web_ui`.
"""
