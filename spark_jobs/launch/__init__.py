"""Starting Spark applications, finding them again, watching and stopping them.

Belongs here: `spark-submit` and the launchers for this machine, YARN, Kubernetes and managed Spark
(`managed`, with `emr_serverless` and `databricks`); the record of a launch (`record`), looking runs
up and launching them (`runs`), the process that answers a plan's questions (`spark_process`) and
the driver that does so before its run (`waiting_driver`), what is known of a launched driver
(`driver_state`), and the handle of a run that is watched (`watched_run`). Importable without
PySpark. Does not belong here: what the driver does (`driver`, `query`).
"""
