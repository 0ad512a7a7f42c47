"""The seam of a topic: the offsets in which live rows may repeat history, and their filter."""
