"""Implementations of second sinks, independent of each other."""
