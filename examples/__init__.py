"""Example pipelines that run, with their data: flights of New York, and a shop in PostgreSQL."""
