"""Inspection of a captured PostgreSQL table: definition, publication, alterations."""
