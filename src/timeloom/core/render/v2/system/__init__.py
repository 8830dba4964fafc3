"""The system text of edition 2.

Reading order: `text` (the whole text), `sections` (instruction sections and their conditions), `configuration` (the
facts that conditions test), `examples` (example replies), `catalogue`, `signature` (parameters on few lines) and
`read_signature` (its parser).
"""
