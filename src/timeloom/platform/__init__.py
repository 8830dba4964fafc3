"""Operating-system and asyncio building blocks that are independent of conversations.

`open_beneath` opens files below a root without following links, `tasks` runs, cancels and awaits tasks,
`token_bucket` limits rates, `account` names the user, `user_names` validates names,
`entry_points` finds the objects that packages offer, `secrets` resolves references to secrets with `secret_command`,
`secret_text` hides their values, `certificates` loads the trusted certificate authorities, `toml_document` parses TOML
with the `toml_lines` of its keys, and `worker_pool` runs the processes of a `worker` program within limits.
"""
