"""timeloom: a timeline-first ReAct agent runtime."""

__version__ = "0.1.0"
