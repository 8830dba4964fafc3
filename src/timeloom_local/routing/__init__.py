"""Chooses the tool for a message: `router`, `embeddings` (MiniLM sentence vectors), `wordpiece` (its tokenizer)."""
