"""Generations and ranges end to end."""
