"""Assets of a pipeline in Dagster: one for each step, its table, and what is upstream of it.

Belongs here: which assets a pipeline has, when Dagster shows them as out of date, and what a run's
page says.
"""
