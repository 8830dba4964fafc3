"""Access to the web: every request goes through a guard that connects to public addresses only.

Reading order: `public_address` (which IP addresses are public), `web_address` (which URLs may be requested),
`guarded_network` (resolves, checks and connects), `decompress` and `download` (one bounded GET with its redirects).
"""
