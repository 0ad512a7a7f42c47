"""Avro values of records."""
