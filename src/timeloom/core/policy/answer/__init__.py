"""Structured output: the schema of a turn's answer and the check of the answer.

Read `schema` (the accepted schemas), `validate` (a value against a schema), then `check` (the text of an answer).
"""
