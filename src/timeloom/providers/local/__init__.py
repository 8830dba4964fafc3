"""The local model: small weights from a package, run in this process, for a first look without a key."""
