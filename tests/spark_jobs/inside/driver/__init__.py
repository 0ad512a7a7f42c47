"""Tests of what the driver does next to the query."""
