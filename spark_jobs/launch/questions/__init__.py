"""Questions to Spark while a plan is made, before there is a run.

Belongs here: the process that answers them (`spark_process`), and each kind of question: what the
transform makes of the planned columns, and where tables of a catalog are. Does not belong here: how
Spark finds the answers (`spark_jobs.analysis_job`).
"""
