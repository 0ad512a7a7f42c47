"""A declaration as a YAML document: reading it, and refusing what it must not have."""
