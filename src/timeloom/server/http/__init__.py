"""HTTP building blocks.

Reading order: `sse`, `deliver`, `uploads`, `downloads`, `byte_ranges`, `json_body`, `json_stream`, `problem_json`,
`validation_error`, `pagination`, `timestamps`, `security_headers`, `connection_limits`, `header_limits`.
"""
