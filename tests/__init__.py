"""The tests; `tests.harness` holds what several suites share."""
