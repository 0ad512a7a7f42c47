"""The plan of a topic."""
