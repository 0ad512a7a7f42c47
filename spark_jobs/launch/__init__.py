"""Starting Spark applications, finding them again, watching and stopping them.

Belongs here: `spark-submit` and the launchers for this machine, YARN, Kubernetes and managed Spark
(`managed`, with `emr_serverless` and `databricks`); the record of a launch (`record`), looking runs
up and launching them (`runs`), what is known of a launched driver (`driver_state`), and the handle
of a run that is watched (`watched_run`). Importable without PySpark. Does not belong here: what the
driver does (`driver`, `query`).
"""
