"""Seam of a topic: the offsets whose rows history may also contain, and their filter."""
