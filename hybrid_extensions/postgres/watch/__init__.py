"""Inspection of a captured PostgreSQL table: definition, publication, alterations.

Belongs here: which alterations of a captured table no change reports, and what a publication leaves
out.
"""
