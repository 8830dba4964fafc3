"""Public import path of `CitationRewriter`, which is defined in `timeloom.core.citations`."""

from timeloom.core.citations.rewriter import CitationRewriter

__all__ = ["CitationRewriter"]
