"""Providers: adapters that let a model of some service, or of a script, play the model's role."""
