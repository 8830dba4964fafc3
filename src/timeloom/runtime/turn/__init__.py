"""One turn of the agent.

Reading order: `start` (opens a turn), `loop` (asks the policy and acts until the turn ends), `ask_model`,
`execute_action`, `run_tool`, `tool_result`, `file_sources`, `nested_calls`, `inbox` (messages during a turn),
`attachments`, `title`, `resume_open_turns` (after a crash).
"""
