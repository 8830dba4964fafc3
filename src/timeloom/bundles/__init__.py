"""Bundles: agent apps with tools, instructions, settings, channels and widgets.

Reading order: `bundle` (the value), `bundle_file` (`bundle.toml`), `modules` (imports), `descriptors` (the tools and
skills modules), `build`, `loaded_bundle`, `load`, `fault`, `registry` (the bundles of a process), `context` (the values
that a bundle's code reads), `bundle_tool` (runs its tools with them).
"""
