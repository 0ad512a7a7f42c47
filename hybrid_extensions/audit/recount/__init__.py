"""Recounts of the runs' own records: hand-overs, bad records, quarantine."""
