"""The plan of a file source."""
