"""JSON objects in records."""
