"""Drivers that several pipelines share (`spark.driver: shared`): started, asked, and served.

Belongs here: one Spark application with a thread for each pipeline, and requests to it through a
socket. Does not belong here: what a run does (`spark_jobs.inside.driver.pipeline_run`), and the
command that starts a driver (`spark_jobs.launch.submission`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "shared_drivers",
    shared_drivers="hybrid_extensions.shared_drivers.drivers:DRIVERS",
    shared_job="hybrid_extensions.shared_drivers.spark.driver:serve",
)
