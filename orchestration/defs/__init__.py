"""Dagster definitions of a pipeline: assets, checks, jobs, schedules, sensors, metadata.

Belongs here: whatever imports Dagster. Does not belong here: decisions; those are made in the
chain, the generations and the supervision, which the command line uses too.
"""
