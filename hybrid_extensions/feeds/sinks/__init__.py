"""Kinds of second sinks; they do not know each other."""
