"""Plans: values, step marks and the four ways a plan's life changes."""
