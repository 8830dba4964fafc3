"""The error of a refused path."""

from timeloom.core.codes import CodedError

_SHOWN_CHARS = 40


class PathError(CodedError):
    """A path that is refused; `code` says for which reason."""


def shown(text: str) -> str:
    """The start of a refused text for a message, cut before the first separator so that no host path is repeated."""
    head = text.partition("/")[0].partition("\\")[0][:_SHOWN_CHARS]
    return f"{head!a}…" if len(head) < len(text) else f"{head!a}"
