"""The conformance suite: published requests and stream checks that score any model or endpoint."""
