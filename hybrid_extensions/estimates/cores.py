"""Executors and cores of a run by `spark.master` and `spark.conf`; None if they are left open."""

from __future__ import annotations

import os
import re

from sources.config.spark_settings import SparkSettings

# https://spark.apache.org/docs/latest/running-on-yarn.html and running-on-kubernetes.html
_DEFAULT_EXECUTORS = 2


def executors_of(spark: SparkSettings) -> int | None:
    """Return the number of Spark executors, for estimates in executor-hours; None if unknown.

    Returns:
        1 for a local master; ``spark.executor.instances``; 2, Spark's default, if that is left out
        on YARN or Kubernetes; None with dynamic allocation, and on a standalone cluster or a
        managed service that does not declare it.
    """
    if spark.master.startswith("local"):
        return 1
    if spark.conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return None
    declared = spark.conf.get("spark.executor.instances", "")
    if declared.isdigit():
        return int(declared)
    is_open = spark.master.startswith("spark://") or spark.managed_by is not None
    return None if is_open else _DEFAULT_EXECUTORS


def cores_of(spark: SparkSettings) -> int | None:
    """Return the number of cores for a run's tasks, over all executors; None if unknown.

    Returns:
        For a local master the number in its brackets, or all cores of this machine for ``*``. On a
        cluster ``spark.cores.max`` (standalone only), or executors times ``spark.executor.cores``,
        which is 1 by default on YARN and Kubernetes. None where the settings leave it open.
    """
    if spark.master.startswith("local"):
        found = re.fullmatch(r"local\[(\*|\d+)(?:,\s*\d+)?\]", spark.master)
        if found is None:
            return 1
        return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])
    is_standalone = spark.master.startswith("spark://")
    most = spark.conf.get("spark.cores.max", "")
    if is_standalone and most.isdigit():
        return int(most)
    executors = executors_of(spark)
    each = spark.conf.get("spark.executor.cores", "" if is_standalone else "1")
    return executors * int(each) if executors is not None and each.isdigit() else None
