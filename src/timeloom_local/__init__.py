"""The local demo model: a small model that runs in this process, for a first look without an API key.

`timeloom` finds this package through the entry point `local` of the group `timeloom.providers`.

Reading order: `provider` (the entry point), `model`, `prompt_content`, `read_prompt`, `read_channels` and
`read_catalogue` (values read from the prompt), `intents/` and `text_rules` (what a message asks for, by strict
rules), `planner` (the next action), `run_intent`, `steps`, `file_steps` and `talk_steps` (the calls and the answer of
an intent), `known_files`, `quoting`, `calls`, `plan_templates` and `answers` (parameters and texts by rule),
`routing/` (tools of the server), `reply`, `slots`, `grammar`, `prompts` and `engine` (text by the small model),
`weights`.
"""
