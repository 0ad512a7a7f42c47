"""The seam end to end: overlaps, offsets, several topics."""
