"""The local demo model: a small model that runs in this process, for a first look without an API key.

`timeloom` finds this package through the entry point `local` of the group `timeloom.providers`.

Reading order: `provider` (the entry point), `model`, `read_prompt` and `read_catalogue` (values read from the prompt),
`planner` (the next action), `routing/` (the tool that a message asks for), `calls`, `edits`, `answers` and `text_rules`
(parameters and answers by rule), `reply`, `slots`, `grammar`, `prompts` and `engine` (text by the small model),
`weights`.
"""
