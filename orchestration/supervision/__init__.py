"""Supervision of the live run: health, restarts, pause, alerts.

Belongs here: judging heartbeats and lag, and acting on the verdict. Does not belong here: how a
process is found or ended (`spark_jobs.launch`).
"""
