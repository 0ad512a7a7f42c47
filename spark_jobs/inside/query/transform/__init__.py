"""The pipeline's transform: loaded, given its rows, described, and judged.

Belongs here: what a transform is called with, what it may return, and which columns it passes on as
they are.
"""
