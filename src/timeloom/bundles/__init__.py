"""Bundles: agent apps with tools, instructions, settings, channels and widgets; `bundle` is the value."""
