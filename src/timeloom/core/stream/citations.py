"""The public path of `CitationRewriter`, which lives in `timeloom.core.citations`."""

from timeloom.core.citations.rewriter import CitationRewriter

__all__ = ["CitationRewriter"]
