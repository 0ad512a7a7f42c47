"""The state of the live run, and what is done about it: health, restarts, pause, webhooks.

Belongs here: judging heartbeats and lag, and acting on the verdict. Does not belong here: how a
process is found or ended (`spark_jobs.launch`).
"""
