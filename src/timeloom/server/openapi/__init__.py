"""The OpenAPI document, derived from the table of routes and the types of its handlers, and its page `/docs`.

Reading order: `document`, `operations`, `errors`, `schemas`, `field_docs`, `stream_items`, `component_types`, `page`.
"""
