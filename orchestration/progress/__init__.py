"""How far a run is, and what is ahead: phases, forecast, plots, preview of the plan.

Belongs here: figures made for people from plans and heartbeats. Does not belong here: verdicts
(`supervision`).
"""
