"""Tests of `feeds`."""
