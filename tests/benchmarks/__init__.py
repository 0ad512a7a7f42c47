"""Tests of how the benchmarks measure."""
