"""Tables of a lake as history: the files of one version, and their event times.

Belongs here: which files a version has, which commits can be followed, and the event times of a
file.
"""
