"""Daemon from which Spark forks its Python workers, with what our tasks import loaded already.

Spark's own daemon loads nothing before it forks, so each worker does: more than a second of a core
and some 100 MB each. ``spark.python.daemon.module`` names this one where the workers certainly have
this environment. It starts no thread of Python's, and Arrow's allocator survives a fork.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401 - for the workers
from pyspark import daemon

import spark_jobs.inside.readers.files.planned_files
import spark_jobs.inside.readers.topics.direct_records
import spark_jobs.inside.readers.topics.planned_topic
import spark_jobs.inside.sink.appending.task_files  # noqa: F401 - for the workers

if __name__ == "__main__":
    # Memory that no collection touches stays shared with the workers.
    gc.freeze()
    daemon.manager()
