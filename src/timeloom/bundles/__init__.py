"""Bundles: agent apps with tools, instructions, settings, channels and widgets.

Reading order: `bundle` (the value), `bundle_file` (`bundle.toml`), `modules` (imports), `build`, `loaded_bundle`,
`load`, `fault`, `registry` (the bundles of a process), `context` (the values that a bundle's code reads).
"""
