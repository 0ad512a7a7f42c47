"""Avro files: the reader, and the types of their schemas."""
