"""File sources: which files are read, in which splits, and what is known of their event times.

Belongs here: listing, sampling, splitting, tables as history, offsets that files contain, event
times out of bounds. Does not belong here: reading one format (`formats`), or the plan that is made
of it (`planning`).
"""
