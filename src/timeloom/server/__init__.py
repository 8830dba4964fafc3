"""The HTTP server: starts conversations, streams their events and serves the web page.

`serve` runs a server with its settings; `open_services` yields what `app.build_app` needs for another ASGI server;
`create_app` makes an application of an agent, to mount in another one.

Reading order: `bootstrap`, `mount`, `http_server`, `app`, `endpoints` (the table of routes), `authorize`,
`request_context`, `services`, `openapi` (the document and `/docs`), `rate_limit`, `conversation_states`,
`history_match`, `rerun_jobs`; then the packages `routes`, `protocols`, `http`, `auth` and `observability`.
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers read it as true; importing `typing` would take longer than the package
if TYPE_CHECKING:
    from timeloom.server.auth.principal import Principal
    from timeloom.server.bootstrap import open_services, serve
    from timeloom.server.mount import create_app

_MODULE_OF = {
    "Principal": "timeloom.server.auth.principal",
    "create_app": "timeloom.server.mount",
    "open_services": "timeloom.server.bootstrap",
    "serve": "timeloom.server.bootstrap",
}

__all__ = ["Principal", "create_app", "open_services", "serve"]


def __getattr__(name: str) -> object:
    """Import the public names at their first use, because the web server takes 150 ms to load."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
