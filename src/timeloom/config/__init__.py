"""The settings, typed, from the command line, environment variables, a TOML file and defaults.

Reading order: `settings` and `sections/` (all settings), `field_help`, `catalogue`, `parse_value`, `toml_lines`,
`toml_file`, `resolve`, `load`; `models` and `sandboxes` convert settings for other packages.
"""
