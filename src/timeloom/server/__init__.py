"""The HTTP server: starts conversations, streams their events and serves the web page.

`serve` runs a server with its settings; `open_services` yields what `app.build_app` needs for another ASGI server.

Reading order: `bootstrap`, `http_server`, `app`, `endpoints` (the table of routes), `authorize`, `request_context`,
`services`, `openapi` (the document and `/docs`), `rate_limit`, `conversation_factory`, `conversation_states`,
`history_match`, `rerun_jobs`; then the packages `routes`, `protocols`, `http`, `auth` and `observability`.
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers read it as true; importing `typing` would take longer than the package
if TYPE_CHECKING:
    from timeloom.server.bootstrap import open_services, serve

__all__ = ["open_services", "serve"]


def __getattr__(name: str) -> object:
    """Import the public functions at their first use, because the web server takes 150 ms to load."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("timeloom.server.bootstrap"), name)
