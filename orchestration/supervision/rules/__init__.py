"""Rules by which a live run is judged: pure functions."""
