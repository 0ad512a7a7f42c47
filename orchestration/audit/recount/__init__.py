"""Recounts of what the runs say: hand-overs, bad records, quarantine."""
