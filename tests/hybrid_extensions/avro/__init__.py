"""Tests of `hybrid_extensions.avro`."""
