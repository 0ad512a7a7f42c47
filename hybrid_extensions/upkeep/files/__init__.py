"""Upkeep of the target: compaction of small files, and deletion of unneeded ones.

Belongs here: which small files are compacted together, which files nobody needs any more and how
old they have to be, and which tables are refused.

No row changes by it.
"""
