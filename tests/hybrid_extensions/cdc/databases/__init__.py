"""Tests of `hybrid_extensions.cdc.databases`."""
