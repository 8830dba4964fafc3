"""Streams: parsers fed piece by piece, with the same outcome for every way of cutting the input."""
