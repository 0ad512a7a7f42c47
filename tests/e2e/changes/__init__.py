"""Change data capture and merges end to end."""
