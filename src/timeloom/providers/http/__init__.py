"""The HTTP client under the adapters of models: one POST, and its answer as it comes."""
