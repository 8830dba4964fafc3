"""Views about the model's context window.

Reading order: `visible` (entries in the prompt), `cuts` (legal compaction points), `forgetting` (pruning and
summaries so far), `compactions` (requested summaries), `provider_caches` (expected cache contents),
`token_calibration` (estimated against reported tokens).
"""
