"""Tests of `hybrid_extensions.hdfs`."""
