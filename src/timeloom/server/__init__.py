"""The HTTP server: starts conversations, streams their events and serves the web page.

Reading order: `services`, `authorize`, `endpoints` (the table of routes), `app`, `serve`; then the packages `http`,
`auth`, `routes`, `protocols` and `observability`.
"""
