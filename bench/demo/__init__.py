"""Requests to the demo model with their sensible outcomes: `requests` (their form), `conversation`, `judge`, `score`.

`python -m bench.demo.score FILE` runs a set of requests and prints every transcript and the score.
"""
