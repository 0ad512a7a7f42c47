"""Tests of the report about a pipeline."""
