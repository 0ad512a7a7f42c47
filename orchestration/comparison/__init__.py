"""Verdict on a table: what is kept and shown of an audit or comparison that extensions make.

Belongs here: the report of an audit, and what is kept of it
(:mod:`~orchestration.comparison.installed_audit`). Does not belong here: how tables are read and
compared (`hybrid_extensions.comparison`).
"""
