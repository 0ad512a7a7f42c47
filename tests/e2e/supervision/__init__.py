"""Supervision, controls and kills end to end."""
