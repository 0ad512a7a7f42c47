"""Tests of `browser`."""
