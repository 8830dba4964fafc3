"""The error of a refused request."""

import msgspec

from timeloom.client.types import ProblemDetails


class ApiError(Exception):
    """The server refused a request: `status`, the `code` that names the kind of error, and the `detail`."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}" if code else f"{status}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


def read_error(status: int, body: bytes) -> ApiError:
    """Return the error of a response; a proxy may have sent a body of another form."""
    try:
        problem = msgspec.json.decode(body, type=ProblemDetails)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ApiError(status, "", body[:200].decode("utf-8", "replace"))
    return ApiError(status, problem.code, problem.detail)
