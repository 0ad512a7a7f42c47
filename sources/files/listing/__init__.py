"""Which files and splits a source has, and what a sample of them shows.

Belongs here: which files have arrived or were rewritten, where a large file is cut, and which event
times a sample shows.
"""
