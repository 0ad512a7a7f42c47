"""Drivers on managed Spark: EMR Serverless and Databricks, declared as masters.

Belongs here: what such a master needs in the file, the request that starts a driver, and how it is
asked about and ended. Does not belong here: properties that all drivers get
(`spark_jobs.launch.submission`).
"""

from sources.extensions import Extension

EXTENSION = Extension("managed", services="hybrid_extensions.managed.services:SERVICES")
