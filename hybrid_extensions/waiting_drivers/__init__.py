"""Drivers that are started in advance, so that a run need not wait for Spark's start.

Belongs here: the start of such a driver, and the lock and the log that it inherits. Does not belong
here: what runs in it (`spark_jobs.waiting_job`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "waiting_drivers", waiting_driver="hybrid_extensions.waiting_drivers.driver:driver_for"
)
