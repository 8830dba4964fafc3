"""The settings, typed, from the command line, environment variables, a TOML file and defaults.

Reading order: `settings` and `sections/` (all settings), `field_help`, `catalogue`, `value_types`, `parse_value`,
`toml_file`, `found_file` (a file that was not named), `resolve`, `load`, `errors`; `models`, `sandboxes`
and `signing` convert settings for other packages.
"""
