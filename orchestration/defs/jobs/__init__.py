"""Jobs of a pipeline in Dagster, their forms and schedules.

Belongs here: which actions a form has; when a run continues after an approval; when, and how often,
Dagster completes a promotion that broke off; and how many restarts of a day are counted.
"""
