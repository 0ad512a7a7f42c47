"""Folders that are tables of a lake."""
