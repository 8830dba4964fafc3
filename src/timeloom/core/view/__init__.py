"""Views: pure folds over the timeline, each updated one entry at a time."""
