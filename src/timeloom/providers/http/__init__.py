"""The HTTP client of the model adapters: sends a POST and streams the response.

Reading order: `answer` (the response and the transport protocol), `transport` (chooses one), `direct` and `connection`
(HTTP/1.1 without a proxy), `httpx2_transport` (through a proxy, or by choice), `address`.
"""
