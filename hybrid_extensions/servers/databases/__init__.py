"""Databases on this machine."""
