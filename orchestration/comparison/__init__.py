"""Verdict on a table: what is kept and shown of an audit or comparison that extensions make.

Belongs here: the report of an audit, what is kept of it, and what becomes of a result that can't be
kept (:mod:`~orchestration.comparison.installed_audit`). Does not belong here: how tables are read
and compared (`hybrid_extensions.comparison`).
"""
