"""Search services behind one port.

Reading order: `service` (requests to a service), `brave`, `searxng`, `tavily`, `duckduckgo`, `folder` (saved pages).
"""
