"""Views: pure folds over the timeline, each kept up to date one entry at a time."""
