"""Upkeep of the target: small files become larger ones, and files that nobody needs are deleted.

No row changes by it.
"""
