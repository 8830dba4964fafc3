"""Benchmarks of the core and the embedded store, with LangGraph's checkpointer doing the same work beside them."""
