"""Error for a refused path."""

from timeloom.core.codes import CodedError

_MAX_QUOTED_CHARS = 40


class PathError(CodedError):
    """Error for a refused path; `code` states the reason."""


def quote_prefix(text: str) -> str:
    """Quote the start of a refused text for a message, cut at the first separator so that no host path leaks."""
    head = text.partition("/")[0].partition("\\")[0][:_MAX_QUOTED_CHARS]
    return f"{head!a}…" if len(head) < len(text) else f"{head!a}"
