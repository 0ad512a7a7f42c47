"""Seam of a topic: the offsets whose rows history may also contain, and their filter.

Belongs here: which rows of the topic history has delivered, and so are removed: by key, content or
position; which are certain without a look at history; and when the seam is passed.
"""
