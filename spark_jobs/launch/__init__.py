"""Starting Spark applications, finding them again, watching and stopping them.

Belongs here: `spark-submit` and the launchers for this machine, YARN and Kubernetes. Importable
without PySpark. Does not belong here: what the driver does (`driver`, `query`).
"""
