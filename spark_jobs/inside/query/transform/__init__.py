"""The pipeline's transform: loaded, given its rows, described, and judged."""
