"""Tests of hybrid_testing."""
