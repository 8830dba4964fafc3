"""Bundles: agent apps with tools, instructions, settings, channels and widgets; `bundle` is the value.

`context` answers the bundle's code, `bundle_tool` runs its tools, `descriptors` reads its tools and skills modules.
"""
