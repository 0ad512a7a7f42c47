"""What to read and where to start: sources, splits, positions and the hand-over between sources."""
