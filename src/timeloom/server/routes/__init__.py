"""The HTTP routes.

Reading order: `chat`, `approvals`, `conversations`, `pins`, `feedback`, `files`, `search`, `inspect`, `reruns`,
`spend`, `health`, `login`, `web_ui`, `widgets`.
"""
