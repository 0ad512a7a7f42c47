"""Rules that judge a live run, as pure functions."""
