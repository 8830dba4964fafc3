"""Wire: blocks to JSON and back, and every other form that leaves or enters the process."""
