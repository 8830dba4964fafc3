"""Descriptors: modules of a bundle that name the tools and the skills of an agent.

Reading order: `tools` and `skills` (the values), `read_module` (the module forms), `find_module`, `load_tools`,
`missing_parts`, `places`.
"""
