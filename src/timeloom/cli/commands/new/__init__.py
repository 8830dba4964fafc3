"""`timeloom new`: writes a small bundle to start from."""
