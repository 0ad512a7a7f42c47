"""Supervision of the live run: health, restarts, pause, alerts.

Belongs here: judging heartbeats and lag, and acting on the verdict: when a run is restarted and
when not, who is alerted, and what a pause means. Does not belong here: how a process is found or
ended (`spark_jobs.launch`).
"""
