"""Cache policy: cache points, their lifetimes, and expected costs.

Reading order: `points`, `lifetimes`, `costs`, `plan` (all three for one request), `misses` (why a request read less
than expected).
"""
