"""Recounts of the runs' own records: hand-overs, bad records, quarantine.

Belongs here: whether each partition's hand-over agrees with the input, whether bad records were
counted and quarantined as they are, and which declared columns no row has.
"""
