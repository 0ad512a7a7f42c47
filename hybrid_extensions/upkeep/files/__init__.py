"""Upkeep of the target: compaction of small files, and deletion of unneeded ones.

No row changes by it.
"""
