"""Escapes foreign text in prompts: `fence` for lines, `json_text` for JSON, `json_shape` for outlines of JSON."""
