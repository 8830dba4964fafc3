"""Testing: contracts, builders and strategies that ship with the package."""
