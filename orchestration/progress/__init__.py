"""Progress of runs: phases, forecast, plots, preview of the plan.

Belongs here: figures for people, made from plans and heartbeats. Does not belong here: verdicts
(`supervision`).
"""
