"""Protocol Buffers values of records."""
