"""Which files and splits a source has, and what a sample of them shows."""
