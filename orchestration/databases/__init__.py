"""Captured databases: their snapshots, logs, tables, and comparisons."""
