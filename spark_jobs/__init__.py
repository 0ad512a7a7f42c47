"""Spark: what runs inside it, and how a driver is launched, found again and stopped.

Belongs here: the job (`job.py`) and its parts. Does not belong here: when something runs, and who
asked for it (`orchestration`). Of Dagster only `dagster_pipes` is imported.
"""
