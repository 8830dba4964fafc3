"""The second edition of what a model reads and writes; conversations record which edition a turn uses."""
