"""The conformance suite: published requests and stream checks that score any model or endpoint.

Reading order: `running`, `cases`, `scenes`, `judging`, `streaming`. The cases are in `requests.yaml`.
"""
